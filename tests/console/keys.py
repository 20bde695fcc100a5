"""Names and passwords of users."""

import base64


def basic(name, password):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
