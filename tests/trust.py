"""
The trusted authorities for the HTTP calls of tests.

Without them httpx reads the file of all authorities for each call, which takes 20 ms.
"""

import httpx

TRUSTED = httpx.create_ssl_context()
