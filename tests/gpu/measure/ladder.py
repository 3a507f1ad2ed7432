"""Measures the cost of the settings of the memory ladder, relative to slices of
1."""
import os

from measure.speed import bench, verdict

# The settings and their options. All give the same bytes.
WHOLE = ['--slice', 1, '--strips', 1, '--frames-at-once', 1000]
CUT = ['--slice', 1, '--strips']
RUNGS = {
    'slices of 1': WHOLE + ['--spill', 'off'],
    '4 strips': CUT + [4, '--frames-at-once', 1000, '--spill', 'off'],
    '2 frames, 8 strips': CUT + [8, '--frames-at-once', 2, '--spill', 'off'],
    # The log has the time of opening.
    'spilled': WHOLE + ['--spill', 'host', '--verbose'],
    'spilled, 1 frame, 16 strips': CUT + [16, '--frames-at-once', 1,
                                          '--spill', 'host'],
}


def ladder(run):
    """what strips, fewer frames at once and spilled carries cost"""
    o = run.options
    cases = [(m, rung) for m in o.models for rung in RUNGS]
    base = {}  # frames per second with slices of 1
    for model, rung in cases:
        if run.over():
            break
        with run.case({'model': os.path.basename(model), 'direction': 'decode',
                       'precision': o.precisions[0], 'size': o.sizes[0],
                       'rung': rung, 'faults': []}) as row:
            said = bench(run, model, 'decode', o.precisions[0], o.sizes[0],
                         o.frames, *RUNGS[rung])
            if isinstance(said, str):
                row['result'] = ('stopped' if said.startswith('stopped') else
                                 'skipped' if ' needs ' in said else 'failed')
                row['faults'] = [said]
                continue
            row.update(result='ok', fps=float(said[0][0]['later_fps']))
            base.setdefault(model, row['fps'])
            if rung != 'slices of 1' and base[model] > 0:
                row['of_slices_of_1'] = round(row['fps'] / base[model], 3)
    return verdict(run.rows, len(cases))
