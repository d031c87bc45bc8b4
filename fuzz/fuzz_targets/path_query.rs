//! A request line: what is recognised is asked of upstream by the same words,
//! and by nothing else. Input: method, path and query, a line each.

#![no_main]

use hookgate::dialect::{self, RequestLine};
use http::Method;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut lines = text.splitn(3, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (method, path, query) = (next(), next(), next());
    let Ok(method) = method.parse::<Method>() else {
        return;
    };
    let Some(target) = target(&method, path, query) else {
        return;
    };
    let (told, asked) = target.split_once('?').unwrap_or((&target, ""));
    // A path without a version gets one.
    assert!(told == path || told == format!("/v1beta{path}"), "{path:?}: {target:?}");
    assert!(!told.contains(['%', '?', '#', '\\', ';', ' ']), "{target:?}");
    assert!(told.split('/').all(|it| it != "." && it != ".."), "{target:?}");
    for parameter in asked.split('&').filter(|it| !it.is_empty()) {
        assert!(query.split('&').any(|it| it == parameter), "{query:?}: {target:?}");
        assert!(!parameter.starts_with("key"), "{target:?}");
    }
    let again = self::target(&method, told, asked);
    assert_eq!(again.as_deref(), Some(&*target));
});

fn target(method: &Method, path: &str, query: &str) -> Option<String> {
    let line = RequestLine {
        method,
        path,
        query,
        api: None,
    };
    let known = dialect::recognize_call(line)?.ok()?;
    Some(known.call.ok()?.target())
}
