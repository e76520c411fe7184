"""python -m oarlock: the command oarlock, where no scripts are on the path."""

import oarlock

oarlock._main()
