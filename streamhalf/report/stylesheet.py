"""How a report looks: light, dark and on paper. Colours stay apart for colour-blind readers."""

from __future__ import annotations

_LIGHT = """
  --page: #ffffff; --card: #f6f7f9; --ink: #1c2127; --soft: #56616c; --edge: #d3d9df;
  --main: #0067ac; --contrast: #c04d00; --good: #00684f; --open: #7d5700; --inside: #ffffff;
  --shade: #9aa5b0;
"""

_DARK = """
  --page: #14171b; --card: #1c2126; --ink: #e7eaed; --soft: #a3adb7; --edge: #39424b;
  --main: #58aef0; --contrast: #ff9855; --good: #45cfa3; --open: #e6b54a; --inside: #10151a;
  --shade: #56616c;
"""

STYLESHEET = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
* {{ box-sizing: border-box; }}
html {{ -webkit-text-size-adjust: 100%; }}
body {{ margin: 0; background: var(--page); color: var(--ink); overflow-wrap: break-word;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }}
header, nav, main, footer {{ max-width: 860px; margin: 0 auto; padding: 0 1.25rem; }}
header {{ padding-top: 2.5rem; }}
h1 {{ font-size: 1.05rem; font-weight: 600; margin: 0; }}
h2 {{ font-size: 1.3rem; line-height: 1.3; margin: 0 0 .5rem; }}
h3 {{ font-size: 1rem; margin: 0; }}
p {{ margin: 0 0 .75rem; }}
code {{ white-space: nowrap; font-size: .95em; }}
a {{ color: var(--main); }}
:focus-visible {{ outline: 3px solid var(--main); outline-offset: 2px; border-radius: 3px; }}
.subject, figcaption, caption, footer {{ color: var(--soft); font-size: .9rem; }}
.subject {{ margin: 0 0 1.25rem; }}
.verdict {{ border: 1px solid var(--edge); border-left: 6px solid var(--tone);
  border-radius: 8px; background: var(--card); padding: 1.1rem 1.25rem .5rem; }}
.good {{ --tone: var(--good); }} .bad {{ --tone: var(--contrast); }}
.open {{ --tone: var(--open); }} .plain {{ --tone: var(--main); }}
.badge {{ color: var(--tone); font-weight: 700; letter-spacing: .02em; margin: 0 0 .25rem; }}
.badge span {{ display: inline-block; width: 1.5em; height: 1.5em; line-height: 1.5em;
  margin-right: .5em; border-radius: 50%; text-align: center; background: var(--tone);
  color: var(--inside); }}
.headline {{ font-size: 1.3rem; line-height: 1.4; font-weight: 600; text-wrap: pretty; }}
.advice h2, .notices h2 {{ font-size: 1rem; margin: 0; }}
.advice {{ border-top: 1px solid var(--edge); padding-top: .75rem; }}
.advice ul, .notices ul {{ margin: .25rem 0 .75rem; padding-left: 1.2rem; }}
.notices {{ margin-top: 1rem; border-left: 6px solid var(--open); padding-left: 1rem; }}
nav ul {{ list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; padding: 0;
  margin: 1.25rem 0 0; font-size: .9rem; }}
nav a {{ display: inline-block; padding: .15rem 0; }}
section {{ margin-top: 2.75rem; }}
figure {{ margin: 1rem 0 0; }}
figcaption {{ margin-top: .5rem; max-width: 44rem; }}
.pictures {{ display: grid; gap: 1.25rem 1.75rem; align-items: start; }}
.pictures.many {{ grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); }}
.key {{ list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.25rem; padding: 0;
  margin: .25rem 0 0; font-size: .9rem; }}
.key i {{ display: inline-block; width: 1.5em; margin-right: .5em; vertical-align: middle;
  border-top: 2.5px solid var(--main); }}
.key .filled {{ height: .8em; border: 0; background: var(--main); opacity: .45; }}
.key .contrast {{ border-color: var(--contrast); }}
.key .reference {{ border-top: 2px dashed var(--soft); }}
svg {{ display: block; width: 100%; height: auto; }}
svg.narrow {{ max-width: 430px; }}
.pictures > .one svg.narrow {{ display: none; }}
svg text {{ fill: var(--ink); font-size: 13px; }}
svg .tick {{ fill: var(--soft); font-size: 12px; }}
svg .label {{ fill: var(--soft); }}
svg .value, svg .name {{ font-weight: 600; }}
svg .inside {{ fill: var(--inside); font-weight: 600; }}
svg .on-contrast {{ fill: var(--contrast); }}
svg .on-reference {{ fill: var(--soft); }}
svg .stroke {{ fill: none; stroke: var(--soft); stroke-width: 1; }}
svg .stroke.grid {{ stroke: var(--edge); }}
svg .stroke.main {{ stroke: var(--main); stroke-width: 2; }}
svg .stroke.contrast {{ stroke: var(--contrast); stroke-width: 2; }}
svg .stroke.reference {{ stroke-width: 1.5; stroke-dasharray: 5 4; }}
svg .stroke.whisker {{ stroke: var(--ink); stroke-width: 2; }}
svg .stroke.end {{ stroke: var(--ink); stroke-width: 2; }}
svg .stroke.chance {{ stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 2 2; }}
svg .fill.main {{ fill: var(--main); }} svg .fill.contrast {{ fill: var(--contrast); }}
svg path.fill.main {{ fill-opacity: .45; }}
svg .fill.excluded {{ fill: var(--soft); fill-opacity: .22; }}
svg .dot.main {{ fill: var(--main); }} svg .dot.reference {{ fill: var(--soft); }}
svg .ring {{ stroke: var(--page); stroke-width: 2; }}
svg .frame {{ fill: none; stroke: var(--edge); }}
svg .plus {{ fill: var(--main); }} svg .minus {{ fill: var(--contrast); }}
details {{ margin-top: .5rem; }}
summary {{ cursor: pointer; color: var(--main); font-size: .9rem; padding: .2rem 0;
  width: fit-content; }}
.scroll {{ overflow: auto; max-height: 24rem; margin-top: .5rem;
  background: linear-gradient(to right, var(--page) 40%, transparent) left / 3rem 100%,
    linear-gradient(to left, var(--page) 40%, transparent) right / 3rem 100%,
    linear-gradient(to right, var(--shade), transparent) left / 1rem 100%,
    linear-gradient(to left, var(--shade), transparent) right / 1rem 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }}
.whole {{ max-height: none; }}
.whole caption {{ position: absolute; clip-path: inset(50%); }}
table {{ border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }}
caption {{ text-align: left; padding-bottom: .3rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0;
  border-bottom: 1px solid var(--edge); font-weight: 400; }}
thead th {{ color: var(--soft); white-space: nowrap; }}
tbody th {{ font-weight: 600; }}
.number {{ text-align: right; white-space: nowrap; }}
td {{ overflow-wrap: anywhere; }}
.unbroken {{ white-space: nowrap; overflow-wrap: normal; }}
footer {{ margin-top: 3rem; padding-top: 1rem; padding-bottom: 2.5rem;
  border-top: 1px solid var(--edge); overflow-wrap: anywhere; }}
@media (max-width: 620px) {{
  header {{ padding-top: 1.25rem; }}
  .headline {{ font-size: 1.15rem; }}
  table {{ font-size: .82rem; }}
  th, td {{ padding-right: .55rem; }}
  .pictures > .one svg.wide {{ display: none; }}
  .pictures > .one svg.narrow {{ display: block; }}
}}
@media (max-width: 480px) {{
  table {{ font-size: .78rem; }}
  thead th {{ white-space: normal; }}
  th, td {{ padding-right: .4rem; }}
  tr > :last-child {{ padding-right: 0; }}
}}
@media print {{
  @page {{ margin: 16mm; }}
  :root {{ {_LIGHT} }}
  html {{ font-size: 10pt; }}
  body {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
  nav, details:not([open]) {{ display: none; }}
  header, main, footer {{ max-width: none; padding-left: 0; padding-right: 0; }}
  header {{ padding-top: 0; }}
  .pictures > div, .verdict, tr {{ break-inside: avoid; }}
  h2, section > p {{ break-after: avoid; }}
  figcaption {{ break-before: avoid; }}
  section {{ margin-top: 1.75rem; }}
  .scroll {{ overflow: visible; max-height: none; background: none; }}
}}
"""
