"""The one loop: Twisted on asyncio, the web server beside it, start and stop in order."""
