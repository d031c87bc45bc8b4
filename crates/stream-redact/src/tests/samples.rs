//! Secrets, and texts that resemble them.

pub(super) const JWT: &str =
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
const JWE: &str = "eyJhbGciOiJkaXIifQ..48V1_ALb6US04U3b.5eym8TW_c8SuK0lt.XFBoMYUZodetZdvT";
pub(super) const PEM: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu\nKUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQ==\n-----END RSA PRIVATE KEY-----";
pub(super) const AWS_SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// Secrets by the detector that finds them.
#[rustfmt::skip]
const SECRETS: &[(&str, &[&str])] = &[
    ("email", &[
        "john@example.com", "j.doe+tag@mail.example.co.uk", "x_1%y@a-b.museum", "A@EXAMPLE.ORG", "li@163.com",
        "0@a.io", "John.Doe@Example.Com",
    ]),
    ("phone", &[
        "+14155552671", "+1 415 555 2671", "+1 (415) 555-2671", "+49 30 901820", "+49 (0)30 901820",
        "+33 1 23 45 67 89", "+86 138 0013 8000", "+44.20.7946.0958", "(415) 555-2671", "415-555-2671",
        "1-415-555-2671", "415.555.2671", "01 23 45 67 89", "06.12.34.56.78", "0171 1234567", "030/12345678",
        "020 7946 0958", "0161 496 0000", "01632 960 001", "01632 960001", "090-1234-5678", "03-1234-5678",
    ]),
    ("card", &[
        "4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "378282246310005", "3782 822463 10005",
        "30569309025904", "3056 930902 5904", "6011000990139424", "5555 5555 5555 4444", "2223003122003222",
        "6304000000000000000", "4222222222222", "3530111333300000",
    ]),
    ("iban", &[
        "DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "GB29 NWBK 6016 1331 9268 19", "NO9386011117947",
        "FR14 2004 1010 0505 0001 3M02 606", "MT84MALT011000012345MTLCAST001S",
    ]),
    ("us_ssn", &["078-05-1120", "219-09-9999"]),
    ("jwt", &[JWT, JWE]),
    ("private_key", &[PEM]),
    ("aws_key", &["AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"]),
    ("google_key", &[
        concat!("AIza", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"),
        concat!("AQ.", "Ab8RN6JxQ2vHkLmNoP3qRsTuVwXyZ01234_56-789abc"),
    ]),
    ("github_key", &[
        concat!("ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"),
        concat!("ghs_", "16C7e42F292c6912E7710c838347Ae178B4a"),
        concat!("github_pat_", "11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789"),
    ]),
    ("slack_key", &[
        concat!("xoxb-", "2345678901-2345678901234-abcDEFghiJKLmnoPQRstuVWX"),
        concat!("xapp-", "1-A0123456789-1234567890123-0123456789abcdef"),
        concat!("hooks.slack.com/", "services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"),
    ]),
    ("openai_key", &[
        concat!("sk-", "abcdefghijklmnopqrstT3BlbkFJ0123456789abcdefghij"),
        concat!("sk-", "proj-abc_DEF-0123456789ghijklmnopqrst"),
        concat!("sk-", "or-v1-0123456789abcdef0123456789abcdef"),
    ]),
    ("anthropic_key", &[
        concat!("sk-", "ant-api03-abc_DEF-0123456789ghijklmnopqrst-AA"),
    ]),
];

/// Returns all of them, and some that are composed of others.
pub(super) fn secrets() -> Vec<(&'static str, String)> {
    let plain = SECRETS.iter().flat_map(|(name, secrets)| {
        let secrets = secrets.iter().map(|secret| (*secret).to_owned());
        secrets.map(move |secret| (*name, secret))
    });
    let pem = [
        PEM.replace('\n', "\\n"),
        PEM.replace('\n', "\\\\r\\\\n"),
        PEM.replace('\n', " "),
        PEM.replace("RSA ", ""),
        PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
        PEM.replace('\n', "\n   12\u{2192}"),
    ];
    let pem = pem.map(|key| ("private_key", key));
    let stateless = ("github_key", format!("ghs_123456_{JWT}"));
    plain.chain(pem).chain([stateless]).collect()
}

/// Texts that resemble secrets.
#[rustfmt::skip]
pub(super) const HARMLESS: &[&str] = &[
    // no e-mail addresses
    "user@localhost", "a@b", "@Override", "icon@2x.png", "package@4.17.21.tgz", "git@github.com:org/repo.git",
    "this@Window.close()", "https://john@example.com/x", "john@example.com(", "a@-b.com", "name@domain.c",
    "@types/node@18.0.0", "a @ b.com", "john@.com",
    // no telephone numbers
    "2024-05-06", "+2024-05-06 12:30", "+9999-12-31 23:59", "2024-05-06T12:30:00+02:00", "01-02-2024", "1.2.3", "12.34.56.78",
    "1234567890", "192.168.100.200", "+1 +1 +1", "+12", "x+14155552671", "3.14159265358979",
    "1.0.0+20130313144700", "0x4155552671", "415-555-26711", "1415-555-2671", "115-555-2671", "0.123456789",
    "+1 415 555 267", "10:20:30.123456", "550e8400-e29b-41d4-a716-446655440000",
    // no cards
    "4111111111111112", "1716239022123", "1716239022123456", "41111111111111111111111", "a4111111111111111",
    "4111111111111111a", "0.4111111111111111", "4111_1111_1111_1111", "1111 1111 1111 1117",
    // no IBANs
    "DE88370400440532013000", "DE8937040044053201300", "XX89370400440532013000", "aDE89370400440532013000",
    // no social security numbers
    "000-12-3456", "666-12-3456", "912-12-3456", "123-00-4567", "123-45-0000", "123-45-67890", "123 45 6789",
    "1123-45-6789", "123-45-6789-1", "2024-05-0601",
    // no tokens
    "eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi", "eyJ.eyJ.x",
    "xeyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.dozj",
    // no keys
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----\nMIIB",
    "a line `-----BEGIN PRIVATE KEY-----` begins a key", "if (s == \"-----BEGIN RSA PRIVATE KEY-----\") {",
    "-----BEGIN PRIVATE KEY-----", "AKIAIOSFODNN7EXAMPL", "AKIAIOSFODNN7EXAMPLEX", "xAKIAIOSFODNN7EXAMPLE",
    "akiaiosfodnn7example", "AKIA", "aws_secret_access_key = short", "secret_access_key", "AIzaSy", "AQ.abc",
    "AQ.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ghp_short", "gho_", "github_pat_short", "xoxb-short", "xapp-",
    "https://hooks.slack.com/services/", "sk-learn-pipeline-of-many-words", "sk-estimator-doc-link-fitted",
    "task-0123456789abcdefghij", "sk-ant-short", "sk-ant-words-that-are-joined-by-hyphens",
    "sk-abcdefghijklmnopqrstuvwxyz",
    // no passwords
    "https://example.com:8080/a@b", "http://a:b/c", "postgres://user:${PASSWORD}@host/db", "://:@",
    "redis://:$DB_PASSWORD@host", "redis://:$(DB_PASSWORD)@host", "redis://:{password}@host", "redis://:[password]@host",
    "redis://:***@host", "redis://:%s@host",
    "redis://:@host", "https://example.com/", "printf(\"%s://%s:%s@%s\")",
];
