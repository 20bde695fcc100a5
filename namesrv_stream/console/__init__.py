"""The console: routes, history and commands over HTTP, pushed changes, and a page that shows them at any moment."""
