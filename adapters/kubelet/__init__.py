"""Kubelets: whoever leads the pods of a namespace through their life, by any API server, as ordinary clients of it.

*Hollow*: a pod is bound, Running, and ends when it is deleted; nothing runs. *Process*: the containers of pods become
processes, with a local Spark as their image.
"""
