// A browser that runs this shows the page, so its host may frame it: request the report itself.
// A sandboxed frame has no origin: it would repeat the request for ever and cannot open the report.
if (self.origin === "null") document.getElementById("refused").hidden = false;
else location.replace(location.href);
