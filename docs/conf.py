"""Settings of Sphinx for `make docs`; its source folder is the repository."""

from mmie_tasks import __version__

project = "mmie-tasks"
author = "The mmie-tasks authors"
release = version = __version__
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "mmie_tasks/**", "examples/README.md"]
exclude_patterns = [".*", "out", "dist", "tests"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_title = f"mmie-tasks {__version__}"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_copyright = False
highlight_language = "none"  # of blocks without a language: commands and what they print

myst_heading_anchors = 4  # the anchors that GitHub makes, so that a link works on both

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120  # seconds for a cell
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
add_module_names = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "code"  # docstrings have names in single backticks
