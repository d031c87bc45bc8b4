//! Request lines: the target sent upstream has only the path and the parameters of a recognised
//! request, and is itself recognised.

use hookgate::dialect::{self, RequestLine};
use http::Method;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.splitn(3, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (method, path, query) = (next(), next(), next());
    let Ok(method) = method.parse::<Method>() else {
        return;
    };
    let Some(target) = target(&method, path, query) else {
        return;
    };
    let (sent_path, sent_query) = target.split_once('?').unwrap_or((&target, ""));
    // A path without a version gets that of its API.
    let is_same_path = ["", "/v1beta", "/v1"]
        .iter()
        .any(|version| sent_path == format!("{version}{path}"));
    assert!(is_same_path, "{path:?}: {target:?}");
    assert!(
        !sent_path.contains(['%', '?', '#', '\\', ';', ' ']),
        "{target:?}"
    );
    assert!(
        sent_path
            .split('/')
            .all(|segment| segment != "." && segment != ".."),
        "{target:?}"
    );
    for parameter in sent_query
        .split('&')
        .filter(|parameter| !parameter.is_empty())
    {
        assert!(
            query.split('&').any(|original| original == parameter),
            "{query:?}: {target:?}"
        );
        assert!(!parameter.starts_with("key"), "{target:?}");
    }
    let again = self::target(&method, sent_path, sent_query);
    assert_eq!(again.as_deref(), Some(&*target));
}

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
