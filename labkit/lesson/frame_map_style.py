"""The colours of the picture of a frame, light and dark, for a page and for the widget."""

from __future__ import annotations

__all__ = ["FRAME_MAP_CSS"]

# Each text has a contrast of 4.5 to 1 or better on each surface below it. No colour says anything by itself: every piece
# has its name under it, room and new bytes are hatched.
_LIGHT = (
    "--fm-ink:#1b1f24;--fm-soft:#57616e;--fm-faint:#57616e;--fm-line:#8593a4;--fm-thin:#c6cfd9;--fm-bg:var(--jp-layout-color0,#fff);"
    "--fm-accent:#0b62d6;--fm-on-accent:#fff;--fm-bad:#b3202f;--fm-room:#f6f8fa;--fm-kernel:#e4e8ed;--fm-meta:#eadcfb;--fm-link:#d6e8fd;"
    "--fm-tag:#c9eef0;--fm-network:#d8f1dd;--fm-transport:#fbebc4;--fm-payload:#eceff3;--fm-new:#fde4e1;--fm-stripe:#e3e8ed;--fm-stripe-new:#f3bdb6"
)
_DARK = (
    "--fm-ink:#e7ecf2;--fm-soft:#a9b4c0;--fm-faint:#94a1b0;--fm-line:#78879a;--fm-thin:#4a5663;--fm-bg:var(--jp-layout-color0,#14181d);"
    "--fm-accent:#6aa8ff;--fm-on-accent:#10151b;--fm-bad:#ff8d96;--fm-room:#181d23;--fm-kernel:#2b333c;--fm-meta:#41305c;--fm-link:#1c3a5e;"
    "--fm-tag:#17474b;--fm-network:#1f4429;--fm-transport:#4d3d12;--fm-payload:#2b333d;--fm-new:#532b2b;--fm-stripe:#27303a;--fm-stripe-new:#7a4340"
)
_FILLS = ("room", "kernel", "meta", "link", "tag", "network", "transport", "payload", "new")

FRAME_MAP_CSS = f"""
.fm-art{{{_LIGHT};display:block}}
body[data-jp-theme-light="false"] .fm-art{{{_DARK}}}
@media (prefers-color-scheme:dark){{body:not([data-jp-theme-light]) .fm-art{{{_DARK}}}}}
svg.fm-art text{{fill:var(--fm-ink);font:12px var(--jp-ui-font-family,system-ui,sans-serif);font-variant-numeric:tabular-nums}}
svg.fm-art .fm-title{{font-weight:700;font-size:13px}}
svg.fm-art .fm-call{{font:600 12px var(--jp-code-font-family,ui-monospace,monospace)}}
svg.fm-art .fm-hex{{font:10px var(--jp-code-font-family,ui-monospace,monospace)}}
svg.fm-art .fm-small{{font-size:10.5px;fill:var(--fm-soft)}}
svg.fm-art .fm-said{{font-size:12px}}
svg.fm-art .fm-foot{{font-size:11px}}
svg.fm-art .fm-flag{{font-size:11px;font-weight:600}}
svg.fm-art text.fm-soft{{fill:var(--fm-soft);font-weight:400}}
svg.fm-art .fm-faint{{fill:var(--fm-faint)}}
svg.fm-art .fm-bad{{fill:var(--fm-bad);font-weight:600}}
svg.fm-art .fm-count{{fill:var(--fm-on-accent);font-size:11px;font-weight:700}}
.fm-number{{fill:var(--fm-accent)}}.fm-number.fm-refused{{fill:var(--fm-bad)}}
{"".join(f".fm-{name}{{fill:var(--fm-{name})}}" for name in _FILLS)}
.fm-stripe{{stroke:var(--fm-stripe);stroke-width:1.4;fill:none}}.fm-stripe-new{{stroke:var(--fm-stripe-new)}}
.fm-outline{{fill:none;stroke:var(--fm-line)}}.fm-kernel{{stroke:var(--fm-line)}}
.fm-tick{{stroke:var(--fm-thin);fill:none}}.fm-field{{stroke:var(--fm-line);stroke-width:.8;fill:none}}
.fm-edge{{stroke:var(--fm-ink);stroke-width:2;fill:none}}
.fm-gap{{fill:var(--fm-bg);stroke:none}}.fm-zigzag{{fill:none;stroke:var(--fm-line)}}
.fm-stem{{stroke:var(--fm-ink);fill:var(--fm-ink)}}.fm-stem.fm-soft{{stroke:var(--fm-soft);fill:var(--fm-soft)}}
.fm-move{{stroke:var(--fm-accent);stroke-width:1.6;fill:none}}
.fm-hatch{{stroke:none}}.fm-rule{{stroke:var(--fm-thin);stroke-dasharray:2 3}}
"""
