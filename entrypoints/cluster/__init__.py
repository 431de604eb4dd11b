"""``podtide cluster``: Kubernetes on this machine, for one program or until it is told to end."""
