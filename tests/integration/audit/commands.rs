//! `hookgate audit`: verify, show and export.

use std::{fs, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{TestGateway, Upstream, hook, prompt, run, run_without_reader};

/// Returns a folder with the decision log of a denied and of an allowed call.
async fn folder() -> TempDir {
    let upstream = Upstream::mock().await;
    let guard = "grep -q secret && { echo no >&2; exit 2; }; exit 0";
    let hooks = hook::config(&[("BeforeModel", hook::command("guard", guard))]);
    let config = format!("audit: {{ path: audit.jsonl, rotate: {{ size: 3KiB }} }}\n{hooks}");
    let gate = TestGateway::start(&upstream, &config).await;
    for (session, text) in [("one", "a secret"), ("two", "hello")] {
        let agent = gate.agent().sending("x-hookgate-session", session);
        agent.generate("m", &prompt(text)).await;
    }
    gate.stop_and_keep_files().await
}

#[tokio::test]
async fn verify_reports_truncation_and_names_the_first_broken_line() {
    let folder = folder().await;
    let verify = || run(&["audit", "verify", "audit.jsonl"], folder.path());

    let (code, out, _) = verify();
    assert_eq!(code, 0);
    assert!(out.starts_with("the hash chain is valid: 8 lines"), "{out}");
    let last = out.trim_end().rsplit(' ').next().unwrap();
    let with_known_hash = ["audit", "verify", "audit.jsonl", "--contains", last];
    assert_eq!(run(&with_known_hash, folder.path()).0, 0);
    let (upper, cut) = (last.to_uppercase(), &last[..8]);
    for (hash, code) in [(upper.as_str(), 0), (cut, 2)] {
        let verify = ["audit", "verify", "audit.jsonl", "--contains", hash];
        assert_eq!(run(&verify, folder.path()).0, code, "{hash}");
    }

    // A truncated log is found by a hash that was stored before.
    let file = folder.path().join("audit.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let (head, _) = text.trim_end().rsplit_once('\n').unwrap();
    fs::write(&file, format!("{head}\n")).unwrap();
    assert_eq!(verify().0, 0);
    let (code, _, stderr) = run(&with_known_hash, folder.path());
    assert!(code == 1 && stderr.contains("truncated"), "{stderr}");

    let first = format!("audit.jsonl.{:020}", 1);
    let text = fs::read_to_string(folder.path().join(&first)).unwrap();
    let changed = text.replacen("\"verdict\":\"deny\"", "\"verdict\":\"okay\"", 1);
    assert_ne!(text, changed);
    fs::write(folder.path().join(&first), changed).unwrap();
    let (code, _, stderr) = verify();
    assert_eq!(code, 1);
    assert!(stderr.contains(&format!("{first}:2: ")), "{stderr}");
}

#[tokio::test]
async fn a_log_without_its_first_lines_lacks_a_hash_that_was_kept() {
    let folder = folder().await;
    let first = folder.path().join(format!("audit.jsonl.{:020}", 1));
    let text = fs::read_to_string(&first).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let kept: Value = serde_json::from_str(lines[0]).unwrap();
    fs::write(&first, format!("{}\n", lines[2..].join("\n"))).unwrap();

    let verify = ["audit", "verify", "audit.jsonl"];
    let (code, out, _) = run(&verify, folder.path());
    let contains = [&verify[..], &["--contains", kept["hash"].as_str().unwrap()]].concat();
    let (with_kept_hash, _, error) = run(&contains, folder.path());

    assert_eq!(code, 0);
    let missing = "; 2 lines before line 3 are not in these files";
    assert!(out.contains(missing), "{out}");
    assert_eq!(with_kept_hash, 1, "{error}");
}

#[tokio::test]
async fn the_documented_shell_script_finds_a_broken_line() {
    let folder = folder().await;
    let page = fs::read_to_string("docs/audit.md").unwrap();
    let script = page.split_once("```bash\n").unwrap().1;
    let script = script.split_once("```").unwrap().0;
    assert!(script.contains("sha256sum"), "{script}");

    let rename = |file: fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        let documented = name.replacen("audit.jsonl", "decisions.jsonl", 1);
        fs::rename(file.path(), folder.path().join(documented)).unwrap();
    };
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    files.into_iter().map(Result::unwrap).for_each(rename);

    let check = || {
        let mut bash = Command::new("bash");
        let bash = bash.args(["-c", script]).current_dir(folder.path());
        let out = bash.output().unwrap();
        (out.status.success(), String::from_utf8(out.stdout).unwrap())
    };

    let (is_valid, stdout) = check();
    assert!(is_valid, "{stdout}");
    let file = folder.path().join("decisions.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replacen("\"kind\":\"stop\"", "\"kind\":\"stap\"", 1),
    )
    .unwrap();
    let (is_valid, stdout) = check();
    assert!(!is_valid && stdout.contains("line 8"), "{stdout}");

    fs::remove_file(&file).unwrap();
    assert!(!check().0, "a missing log is not valid");
}

#[tokio::test]
async fn show_and_export_filter_by_verdict_session_time_and_request() {
    let folder = folder().await;
    let audit = |arguments: &[&str]| {
        let all = [&["audit"], arguments].concat();
        let (code, out, stderr) = run(&all, folder.path());
        assert_eq!(code, 0, "{stderr}");
        out
    };

    let denied = audit(&["show", "audit.jsonl", "--verdict", "deny"]);
    let denied: Vec<&str> = denied.lines().collect();
    assert_eq!(denied.len(), 2, "{denied:?}");
    assert!(
        denied[0].contains(" #2 event BeforeModel deny guard(block "),
        "{denied:?}"
    );
    assert!(denied[1].contains("outcome deny"), "{denied:?}");

    let session = audit(&["export", "audit.jsonl", "--session", "two"]);
    let session: Value = serde_json::from_str(&session).unwrap();
    let kinds: Vec<&Value> = session
        .as_array()
        .unwrap()
        .iter()
        .map(|line| &line["kind"])
        .collect();
    assert_eq!(kinds, ["event", "request", "outcome"]);

    let table = audit(&["export", "audit.jsonl", "--format", "csv"]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 9);
    assert!(
        rows[0].starts_with("seq,time,kind,request,session,"),
        "{}",
        rows[0]
    );

    let nothing = audit(&["export", "audit.jsonl", "--since", "2999-01-01T00:00:00Z"]);
    assert_eq!(serde_json::from_str::<Value>(&nothing).unwrap(), json!([]));
    let request = session[0]["request"].as_str().unwrap();
    let of_request = audit(&["show", "audit.jsonl", "--request", request]);
    assert_eq!(of_request.lines().count(), 3);
}

#[test]
fn verification_of_a_missing_file_fails() {
    let folder = TempDir::new().unwrap();

    let (code, _, stderr) = run(&["audit", "verify", "none.jsonl"], folder.path());

    assert_eq!(code, 1);
    assert!(stderr.contains("`none.jsonl`"), "{stderr}");
}

#[test]
fn a_file_of_another_kind_is_named_as_such() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("hookgate.yaml"), "upstreams: {}\n").unwrap();
    for (arguments, expected) in [
        (
            ["audit", "verify", "hookgate.yaml"],
            "hookgate.yaml:1: not a line of a log with a hash chain",
        ),
        (
            ["recording", "show", "hookgate.yaml"],
            "hookgate.yaml: byte 0: not a frame of a recording",
        ),
    ] {
        let (code, _, stderr) = run(&arguments, folder.path());
        assert!(code == 1 && stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn commands_end_when_the_reader_of_their_output_has_gone() {
    let folder = TempDir::new().unwrap();
    let log = "{\"seq\":1,\"kind\":\"outcome\"}\ndamaged\n";
    fs::write(folder.path().join("audit.jsonl"), log).unwrap();
    for arguments in [
        &["show", "audit.jsonl"][..],
        &["export", "audit.jsonl"],
        &["export", "audit.jsonl", "--format", "csv"],
        &["export", "audit.jsonl", "--format", "ocsf"],
        &["export", "audit.jsonl", "--format", "ecs"],
    ] {
        let arguments = [&["audit"], arguments].concat();

        let ended = run_without_reader(&arguments, folder.path());

        assert_eq!(ended, (0, String::new()), "{arguments:?}");
    }
}

#[test]
fn show_and_csv_have_the_subject_of_administrative_lines() {
    let folder = TempDir::new().unwrap();
    let lines = [
        json!({ "kind": "promoted", "action": "promote", "from": "old", "to": "new", "by": "olga" }),
        json!({ "kind": "rollout", "action": "abort", "from": "old", "to": "new", "percent": 5,
            "measure": "denied" }),
        json!({ "kind": "shadow", "action": "end", "from": "old", "to": "new", "reason": "until" }),
        json!({ "kind": "viewed", "by": "ivan", "request": "r", "because": "case 7" }),
        json!({ "kind": "event", "reason": { "sha256": "S" },
            "hooks": [{ "name": "guard", "verdict": "deny", "ms": 1 }] }),
    ];
    let lines = lines.map(|line| format!("{line}\n"));
    fs::write(folder.path().join("audit.jsonl"), lines.concat()).unwrap();

    let (_, shown, _) = run(&["audit", "show", "audit.jsonl"], folder.path());
    let export = ["audit", "export", "audit.jsonl", "--format", "csv"];
    let (_, table, _) = run(&export, folder.path());

    let shown: Vec<&str> = shown.lines().collect();
    for (line, part) in shown.iter().zip([
        "promoted promote from=old to=new by=olga",
        "rollout abort from=old to=new percent=5 measure=denied",
        "shadow end from=old to=new reason=until",
        "viewed by=ivan because=\"case 7\" request=r",
        "event guard(deny 1 ms)",
    ]) {
        assert!(line.ends_with(part), "{line}");
    }
    let rows: Vec<&str> = table.lines().collect();
    for (row, end) in rows.iter().zip([
        ",hash,rule,from,to,by,percent,measure,because,reason",
        ",old,new,olga,,,,",
        ",old,new,,5,denied,,",
        ",old,new,,,,,until",
        ",,,ivan,,,case 7,",
        ",guard,,,,,,,",
    ]) {
        assert!(row.ends_with(end), "{row}");
    }
}

#[test]
fn show_and_csv_have_the_reason_of_a_denial() {
    let folder = TempDir::new().unwrap();
    let reason = json!({ "bytes": 8, "sha256": "S", "text": "no shell" });
    let line = json!({ "seq": 1, "kind": "event", "verdict": "deny", "reason": reason });
    fs::write(folder.path().join("audit.jsonl"), format!("{line}\n")).unwrap();

    let (_, shown, _) = run(&["audit", "show", "audit.jsonl"], folder.path());
    let export = ["audit", "export", "audit.jsonl", "--format", "csv"];
    let (_, table, _) = run(&export, folder.path());

    assert!(shown.contains("deny reason=\"no shell\""), "{shown}");
    assert!(table.trim_end().ends_with(",no shell"), "{table}");
}

#[test]
fn a_subject_does_not_look_like_other_fields() {
    let folder = TempDir::new().unwrap();
    let line = json!({ "seq": 1, "kind": "event", "event": "BeforeTool",
        "subject": "ls allow session=prod", "verdict": "deny" });
    fs::write(folder.path().join("audit.jsonl"), format!("{line}\n")).unwrap();

    let (_, shown, _) = run(&["audit", "show", "audit.jsonl"], folder.path());

    let expected = "event BeforeTool \"ls allow session=prod\" deny\n";
    assert!(shown.ends_with(expected), "{shown}");
}

#[tokio::test]
async fn calls_that_hookgate_refused_are_denied_in_a_siem() {
    let upstream = Upstream::mock().await;
    let config = "audit: { path: audit.jsonl }\npolicies: [{ policy: model_allow, models: [m] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let path = "/v1beta/models/m:generateContent";
    let agent = gateway.agent();
    let refused = agent.post(path, r#"{"contents":[],"contents":[]}"#).await;
    assert_eq!(refused.status, 400);
    let folder = gateway.stop_and_keep_files().await;
    let outcome = |format: &str| {
        let export = ["audit", "export", "audit.jsonl", "--format", format];
        let (_, out, _) = run(&export, folder.path());
        let mut documents = out.lines().map(|line| serde_json::from_str(line).unwrap());
        let is_call = |document: &Value| {
            document["class_uid"] == 6003 || document["event"]["action"] == "outcome"
        };
        documents.find(is_call).unwrap()
    };

    let (ocsf, ecs) = (outcome("ocsf"), outcome("ecs"));

    let ids = ["action_id", "disposition_id", "severity_id"].map(|name| &ocsf[name]);
    assert_eq!(ids, [2, 25, 2], "{ocsf:#}");
    assert_eq!(ecs["event"]["type"], json!(["access", "denied"]), "{ecs:#}");
}
