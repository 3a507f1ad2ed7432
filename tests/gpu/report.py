"""Prints the table of one or more reports. python3 tests/gpu/report.py
REPORT.json... The reports of steps that were run one by one become one table.
"""
import json
import sys

import checks
from runner import short


def columns(head, rows):
    """Returns text in columns. All but the first two are numbers."""
    rows = [head] + [['' if v is None else str(v) for v in r] for r in rows]
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    return ''.join('  '.join(
        v.ljust(w) if i < 2 else v.rjust(w)
        for i, (v, w) in enumerate(zip(r, widths))).rstrip() + '\n'
        for r in rows)


def number(v, places):
    return None if v is None else '%.*f' % (places, v)


def rows_of(reports, name):
    return [r for p in reports for s in p['steps'] if s['step'] == name
            for r in s.get('rows', [])]


def key_of(row):
    return row['model'], row['direction'], row['precision'], row['size']


def speed_table(reports):
    torch, taken = {}, {}
    for r in rows_of(reports, 'torch'):
        if r['result'] == 'ok':
            best = torch.setdefault(key_of(r), {})
            best[r['mode']] = r['fps']
            best['peak'] = min(r['peak_bytes'] or 1 << 62,
                               best.get('peak', 1 << 62))
    for r in rows_of(reports, 'overlap'):
        if 'taken' in r:
            taken[key_of(r)] = r
    rows = []
    for r in rows_of(reports, 'speed'):
        if 'fps' not in r:
            continue
        others, flow = torch.get(key_of(r), {}), taken.get(key_of(r))
        fastest = max([v for k, v in others.items() if k != 'peak'] or [0])
        share = r.get('floor_share')
        rows.append([
            '%s %s' % (r['model'], r['direction']),
            '%s %s' % (r['precision'], r['size']), number(r['fps'], 2),
            number(r['first_s'], 2), number(r['tflops'], 1),
            share and '%.0f %%' % (100 * share),
            *(number(others.get(m), 2)
              for m in ('eager', 'channels_last', 'compile', 'graphs')),
            number(r['fps'] / fastest, 2) if fastest else None,
            flow and number(flow['taken'] / 2**30, 2),
            number(others['peak'] / 2**30, 2)
            if others.get('peak', 1 << 62) < 1 << 62 else None])
    head = ['network', 'at', 'fps', 'first s', 'TFLOP/s', 'of floor', 'eager',
            'ch. last', 'compile', 'graphs', 'gain', 'GiB', 'torch GiB']
    return columns(head, rows) + '\n' if rows else ''


def overlap_table(reports):
    rows = [['%(model)s %(direction)s' % r, '%(precision)s %(size)s' % r,
             r['slices'], number(100 * r['compute']['busy'], 1),
             number(100 * r['upload']['hidden'], 1),
             number(100 * r['download']['hidden'], 1),
             number(r['taken_by_plan'], 3), r['allocs_later']]
            for r in rows_of(reports, 'overlap') if 'compute' in r]
    head = ['network', 'at', 'slices', 'busy %', 'up hidden %',
            'down hidden %', 'of plan', 'allocs']
    return columns(head, rows) + '\n' if rows else ''


def rates_table(reports):
    rows = [[r['name'], r['type'], number(r['ms'], 3),
             number(r.get('tflops', (r.get('gflops') or 0) / 1e3) or None, 1),
             number(r.get('gbytes_s'), 0),
             # 0: it is no choice there
             *(number(r.get(k) or None, 3)
               for k in ('cudnn_ms', 'own_ms', 'wgmma_ms'))]
            for r in rows_of(reports, 'rates')]
    head = ['at most', 'type', 'ms', 'TFLOP/s', 'GB/s', 'cuDNN ms', 'own ms',
            'wgmma ms']
    return columns(head, rows) + '\n' if rows else ''


def checks_table(made):
    """Returns the checks that passed, then those that were not measured, and at
    the end those that failed, because a terminal or a log shows the end first.
    """
    order = ['pass', 'not measured', 'FAIL']
    text = ''
    for c in sorted(made, key=lambda c: order.index(c['result'])):
        text += '%-4s %s: %s' % (
            {'not measured': '?'}.get(c['result'], c['result']),
            checks.TOPICS[c['number']], c['check'])
        if c['value'] not in (None, 'ok', c['expected']):
            text += ': %s' % c['value']
            if c['expected'] != 'reported':
                text += ', expected %s' % c['expected']
        if c['result'] == 'FAIL' or (c['words'] and c['value'] is None):
            text += ' (%s)' % short(c['words'], 100)
        text += '\n'
    return text + ', '.join('%d %s' % (
        sum(c['result'] == k for c in made), k) for k in order) + '\n'


def merged(reports):
    """Merges the reports of steps that were run one by one."""
    return {'machine': {k: v for p in reports for k, v in p['machine'].items()},
            'emulated': any(p.get('emulated') for p in reports),
            'settings': {'quick': all(p.get('settings', {}).get('quick')
                                      for p in reports)},
            'steps': [s for p in reports for s in p['steps']]}


def table(reports):
    m = merged(reports)['machine']
    text = ', '.join('%s %s' % kv for kv in m.items()) + '\n'
    text += 'revision ' + ', '.join(sorted({p.get('revision', 'unknown')
                                            for p in reports})) + '\n\n'
    text += rates_table(reports) + overlap_table(reports)
    text += speed_table(reports)
    for r in rows_of(reports, 'ladder'):
        if 'fps' in r:
            text += ('%(model)s %(direction)s %(precision)s %(size)s, %(rung)s:'
                     ' %(fps).2f frames/s' % r)
            text += (', %(of_slices_of_1).3f of slices of 1\n' % r
                     if 'of_slices_of_1' in r else '\n')
    for r in rows_of(reports, 'start'):
        if 'parts' in r:
            text += 'first frame of %(model)s %(size)s in %(seconds).2f s: ' % r
            text += ', '.join('%s %.3f' % p for p in r['parts'].items()) + '\n'
    for r in rows_of(reports, 'pipelines'):
        text += 'pipeline %(pipeline)s: %(result)s %(words)s\n' % r
    for s in (s for p in reports for s in p['steps']):
        text += '%-10s %-8s %6.1f s  %s\n' % (
            s['step'], s['status'], s.get('seconds', 0), short(s['words'], 300))
    return text + '\n' + checks_table(checks.check(merged(reports)))


if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    found = []
    for path in sys.argv[1:]:
        with open(path) as file:
            found.append(json.load(file))
    print(table(found), end='')
