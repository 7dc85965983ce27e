"""Lets PyYAML parse with libyaml in processes that have this folder in their ``PYTHONPATH``.

`lmms_eval` reads 3,500 task files at each start. The parser changes, what it constructs does not.
"""

import yaml

if yaml.__with_libyaml__:

    class FullLoader(yaml.CFullLoader):
        """The loader of `yaml.full_load`, with the attribute that `lmms_eval` reads."""

        def __init__(self, stream):
            super().__init__(stream)
            self.name = getattr(stream, "name", "<file>")  # as PyYAML's own loader

    yaml.FullLoader = yaml.loader.FullLoader = FullLoader
