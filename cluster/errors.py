"""What can go wrong with a local cluster, each with what to do about it."""


class ClusterError(Exception):
    """A step failed; the message says which, where its log is and what to do."""


class PrerequisiteError(ClusterError):
    """The machine lacks something that the cluster cannot provide itself."""


class DaemonDied(ClusterError):
    """A component that is needed does not run any more."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
