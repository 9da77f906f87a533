// A browser that runs this shows the page, so its host may frame it: ask for the report itself.
// A frame without an origin of its own (sandbox) would ask for ever, and can open nothing.
if (self.origin === "null") document.getElementById("refused").hidden = false;
else location.replace(location.href);
