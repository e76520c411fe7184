"""Turns of a row: one repetition of ours, of the limit and of each alternative,
each time another of them first."""

import time

import figures
import programs
import rows as bench


class Programs:
    """Starts programs of a section when they are first needed."""

    def __init__(self, starters, quick, built=programs.BIN):
        self._starters = starters
        self._quick = quick
        self._built = built
        self._running = {}
        # (program, measurement) -> the figures of the row's turns so far.
        self._figures = {}

    def figures(self, of):
        """One repetition; a program that fails starts anew the next time."""
        if of.program not in self._running:
            self._running[of.program] = self._starters[of.program].start(
                self._built, self._quick)
        try:
            found = self._running[of.program].measure(of.measurement)
        except programs.NotOnThisCpu:
            raise
        except Exception:
            self._running.pop(of.program).close()
            raise
        self._figures.setdefault((of.program, of.measurement), []).append(
            found)
        return found

    def measure(self, of):
        return bench.value_of(of, self.figures(of))

    def forget(self):
        """The turns of a row begin."""
        self._figures.clear()

    def of_turns(self, of):
        """Of the repetitions that another row's turns had."""
        return [bench.value_of(of, one) for one in
                self._figures.get((of.program, of.measurement), [])]

    def close(self):
        for program in self._running.values():
            program.close()
        self._running.clear()


class Pace:
    """How long a row may go on making turns: of what is left of the whole
    run's time an equal share for each row to come. What one leaves others
    get."""

    def __init__(self, seconds, num_rows, clock=time.monotonic):
        self._clock = clock
        self._end = clock() + seconds
        # With the one under way.
        self._rows_left = num_rows + 1
        self._row_end = self._end

    def begin_row(self):
        self._rows_left -= 1
        self.begin_turns()

    def begin_turns(self):
        """Of the row that began last: starting its programs and warming up
        takes from the time of all."""
        now = self._clock()
        self._row_end = now + (self._end - now) / max(1, self._rows_left)

    def is_over(self):
        """Of the row that began last."""
        return self._clock() >= self._row_end


class Turns:
    """The numbers of one row: a list over the turns for each of its parts."""

    # A row whose time is over makes so many, if it is to make more.
    LEAST = 3

    def __init__(self, row, running, num_turns, peers_here, pace=None):
        self._row = row
        self._running = running
        parts = {"ours": row.ours}
        if row.limit is not None:
            parts["limit"] = row.limit
        for label, peer in row.peers:
            if isinstance(peer, bench.Of):
                parts[label] = peer
        self.values = {name: [] for name in parts}
        if row.seen_by_the_row_before:
            for name, part in parts.items():
                self.values[name] = running.of_turns(part)
        # The row before was not asked for, or failed.
        counts = {len(values) for values in self.values.values()}
        if len(counts) > 1 or 0 in counts:
            self.values = {name: [] for name in parts}
            self._measure(parts, num_turns, pace)
        self._carry_over(peers_here)

    def _measure(self, parts, num_turns, pace):
        names = list(parts)
        for turn in range(-1 if self._row.warm_up else 0, num_turns):
            if turn == 0:
                self._running.forget()
                if pace is not None:
                    pace.begin_turns()
            if turn >= self.LEAST and pace is not None and pace.is_over():
                return
            # Nobody is always the first, or always after the same one.
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                value = self._running.measure(parts[name])
                if turn >= 0:
                    self.values[name].append(value)

    def _carry_over(self, peers_here):
        """Figures that are not of this run."""
        num_turns = len(self.values["ours"])
        for label, peer in self._row.peers:
            if isinstance(peer, bench.Scaled) and peer.name in peers_here:
                self.values[label] = [float(peers_here[peer.name])] * num_turns
            elif isinstance(peer, bench.Scaled):
                self.values[label] = [
                    peer.figure * limit / peer.figure_of_limit
                    for limit in self.values["limit"]]
            elif not isinstance(peer, bench.Of):
                self.values[label] = [float(peer)] * num_turns


def reason_of(error):
    """Why a row has no figures, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, programs.NotOnThisCpu):
        return f"{figures.NOT_ON_THIS_CPU}: {text}"
    if isinstance(error, programs.Failed):
        return f"{figures.FAILED}: {text}"
    return f"{figures.FAILED}: {type(error).__name__}: {text}"
