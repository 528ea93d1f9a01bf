"""The lab's JupyterLab: asks no site for news, updates or extensions.

The page's own switches are in labconfig/.
"""

c = get_config()  # type: ignore[name-defined]  # noqa: F821 (Jupyter puts it here)

c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.extension_manager = "readonly"
c.LabApp.log_level = "WARN"
