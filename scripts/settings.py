"""Write what the declarations of settings say: a table in docs/guide.md and configs/default.yaml.

usage: scripts/settings     after a change in streamhalf/config.py
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from streamhalf.config import SETTINGS

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- settings: made by scripts/settings.py -->\n", "<!-- end of settings -->"


def render_table() -> str:
    """All settings as a Markdown table, one group after the other."""
    lines = ["| setting | default | takes | meaning |", "|---|---|---|---|"]
    for group in dict.fromkeys(setting.group for setting in SETTINGS.values()):
        lines.append(f"| **{group}** | | | |")
        for name, setting in SETTINGS.items():
            if setting.group == group:
                flags = (setting.flag,) if isinstance(setting.flag, str) else setting.flag or ()
                flag = f" (`{'`, `'.join(flags)}`)" if flags else ""
                default = f"`{setting.shown_default}`" if setting.shown_default else ""
                said = setting.help.replace("|", "\\|")
                lines.append(f"| `{name}`{flag} | {default} | {setting.limits} | {said} |")
    return "\n".join(lines) + "\n"


def render_config() -> str:
    """A YAML file of all settings at their defaults."""
    parts = [
        "# Every setting of a run with its default (made by scripts/settings.py).\n"
        "# Use: streamhalf fit STORE --config configs/default.yaml; a flag overrides the file.\n"
    ]
    for name, setting in SETTINGS.items():
        text = f"{setting.help} [{setting.limits}]"
        said = textwrap.fill(text, 98, initial_indent="# ", subsequent_indent="# ")
        default = setting.shown_default or ("[]" if setting.kind is tuple else "null")
        parts.append(f"{said}\n{name}: {default}\n")
    return "\n".join(parts)


def render_all() -> dict[Path, str]:
    """Files and what they should hold."""
    guide = ROOT / "docs" / "guide.md"
    before, _, rest = guide.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return {guide: f"{before}{BEGIN}{render_table()}{END}{after}", ROOT / "configs" / "default.yaml": render_config()}


if __name__ == "__main__":
    argparse.ArgumentParser(prog="settings", description=__doc__.splitlines()[0]).parse_args()
    for path, text in render_all().items():
        path.write_text(text, encoding="utf-8")
