"""The console's HTTP endpoints: routes by groups of the navigation, bodies, and the HTML page."""
