"""The command ``mmie-tasks report``: one HTML file of what runs saved, to look at and pass on.

`payload` gathers everything that the page shows as JSON; `page` puts it into HTML.
"""
