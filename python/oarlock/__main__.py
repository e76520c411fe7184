"""python -m oarlock: the command oarlock, where no scripts are on the path."""

from oarlock import _programs

_programs.main()
