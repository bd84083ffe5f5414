"""What ends a command before its time; each line of one is printed after the command's name.

CommandError
├── RefusedError         it cannot be carried out as it was given
└── LocalClusterError    a part of the cluster on this machine has ended that never should
"""


class CommandError(Exception):
    """Each argument is a line for the user: the object, the fact and the remedy."""

    exit_code = 1


class RefusedError(CommandError):
    exit_code = 2


class LocalClusterError(CommandError):
    exit_code = 1
