"""Print what each request of the corpus costs in CPU time: `python -m tests.runtime.parsing`."""

from __future__ import annotations

from tests.runtime.parsing.corpus import cases
from tests.support.parsing_cost import measure
from tests.support.request_parsing import parse_request

rows = [
    (measure(parse_request, each.hostile, each.harmless, enough=0, patience_s=0.05), each)
    for each in cases()
]
print(f"{'ms':>7} {'harmless':>8} {'times':>6}  request")
for cost, case in sorted(rows, key=lambda row: -row[0].hostile_s):
    times = cost.hostile_s / cost.harmless_s
    print(f"{cost.hostile_s * 1e3:7.3f} {cost.harmless_s * 1e3:8.3f} {times:6.2f}  {case.name}")
