//! Errors and warnings of the command `check` about TLS settings.

use std::fs;

use rcgen::{CertificateParams, date_time_ymd};
use tempfile::TempDir;

use super::{Authority, TLS, write_certificate};
use crate::harness::{hookgate, run};

/// The beginning of a key with a passphrase.
const ENCRYPTED_KEY: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIH0MF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBD+
-----END ENCRYPTED PRIVATE KEY-----
";

#[tokio::test]
async fn invalid_tls_settings_are_config_errors() {
    let authority = Authority::new("ours");
    let (certificate, key) = authority.server();
    let folder = TempDir::new().unwrap();
    for (name, text) in [
        ("server.pem", certificate.as_str()),
        ("server.key", &key),
        ("other.key", &authority.server().1),
        ("agents.pem", &authority.pem()),
        ("empty.pem", ""),
        ("encrypted.key", ENCRYPTED_KEY),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let cases = [
        ("certificate: server.pem, key: server.key", None),
        (
            "certificate: server.pem, key: other.key",
            Some("2:38: the key does not match the certificate"),
        ),
        (
            "certificate: no.pem, key: server.key",
            Some("the certificate cannot be read"),
        ),
        (
            "certificate: empty.pem, key: server.key",
            Some("2:21: the file contains no certificate"),
        ),
        (
            "certificate: server.pem, key: server.pem",
            Some("the file contains no private key"),
        ),
        (
            "certificate: server.pem, key: encrypted.key",
            Some("the private key is encrypted"),
        ),
        (
            "certificate: server.pem, key: server.key, client_ca: empty.pem",
            Some("no certificate"),
        ),
        (
            "certificate: server.pem, key: server.key, client_certificates: optional",
            Some("needs a `client_ca`"),
        ),
        ("certificate: server.pem", Some("key")),
    ];
    for (tls, error) in cases {
        let config =
            format!("upstreams: {{ gemini: {{ url: \"http://x\" }} }}\ntls: {{ {tls} }}\n");
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

        let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

        match error {
            None => assert_eq!(code, 0, "{stderr}"),
            Some(error) => {
                assert_eq!(code, 78, "{tls}: {stderr}");
                assert!(stderr.contains(error), "{tls}: {stderr}");
            }
        }
    }
}

#[test]
fn each_missing_tls_file_is_reported_with_its_setting_and_path() {
    let folder = TempDir::new().unwrap();
    let config = "upstreams: { gemini: { url: \"http://x\" } }
tls: { certificate: a.pem, key: b.pem, client_ca: c.pem }
admin: { tls: { certificate: d.pem, key: e.pem } }
";
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

    let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

    assert_eq!(code, 78, "{stderr}");
    let reported = |what: &str| stderr.contains(what);
    assert_eq!(stderr.lines().count(), 5, "{stderr}");
    assert!(
        reported("hookgate.yaml:2:21: the certificate cannot be read"),
        "{stderr}"
    );
    for file in [
        "(`tls.certificate` is `a.pem`)",
        "(`tls.key` is `b.pem`)",
        "(`tls.client_ca` is `c.pem`)",
        "(`admin.tls.certificate` is `d.pem`)",
        "(`admin.tls.key` is `e.pem`)",
    ] {
        assert!(reported(file), "{file}: {stderr}");
    }
}

#[test]
fn an_expired_or_not_yet_valid_certificate_is_a_warning() {
    let authority = Authority::new("ours");
    let (now, past, future) = (
        CertificateParams::default(),
        date_time_ymd(2020, 1, 1),
        date_time_ymd(2200, 1, 1),
    );
    let (mut expired, mut early) = (now.clone(), now.clone());
    expired.not_after = past;
    early.not_before = future;
    early.not_after = date_time_ymd(2201, 1, 1);
    for (params, warning) in [
        (now, ""),
        (expired, "has expired"),
        (early, "is not valid yet"),
    ] {
        let folder = TempDir::new().unwrap();
        write_certificate(folder.path(), &authority.issue(&params));
        let config = format!("upstreams: {{ gemini: {{ url: \"https://x\" }} }}\n{TLS}");
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

        let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());

        assert_eq!(code, 0, "{stderr}");
        let prefix = "warning: hookgate.yaml:2:21: the certificate";
        assert_eq!(stderr.contains(prefix), !warning.is_empty(), "{stderr}");
        assert!(stderr.contains(warning), "{stderr}");
    }
}

#[test]
fn only_https_addresses_need_the_certificates_of_the_system() {
    let hook =
        |url| format!("{{ BeforeModel: [{{ hooks: [{{ type: http, url: \"{url}\" }}] }}] }}");
    for (upstream, hook_url, code, error) in [
        ("http://x", "http://y", 0, ""),
        ("https://x", "http://y", 1, "no certificate verifier"),
        (
            "http://x",
            "https://y",
            78,
            "failed to build the HTTP client",
        ),
    ] {
        let folder = TempDir::new().unwrap();
        let upstreams = format!("{{ gemini: {{ url: \"{upstream}\" }} }}");
        let config = format!("upstreams: {upstreams}\nhooks: {}\n", hook(hook_url));
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

        let mut command = hookgate(&["check", "hookgate.yaml"]);
        let none = folder.path().join("none");
        command.env("SSL_CERT_FILE", &none);
        command.env("SSL_CERT_DIR", &none);
        let output = command.current_dir(folder.path()).output().unwrap();

        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(error), "{stderr}");
    }
}
