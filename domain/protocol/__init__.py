"""Every value that crosses a machine's border. Records only: nothing here decides.

Stimuli and commands of dynamic allocation (``stimuli``, ``commands``), of pods (``pod_stimuli``, ``pod_commands``) and of
YARN containers (``yarn_messages``, ``containers``, ``container_requests``, ``completions``), between the engine and the
scheduler backend (``backend_messages``); why (``reasons``), what is configured (``config`` for dynamic allocation,
``cluster_config`` for the side under it, ``allocation_policies``, ``resource_profiles``), and pods as evidence (``pods``).
``application`` is all of that together: the config of a whole application, all that it hears, all that it says.
"""
