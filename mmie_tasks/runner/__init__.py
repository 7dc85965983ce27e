"""The only folder that imports lmms_eval: plugin, hooks, launchers and the predictions model."""
