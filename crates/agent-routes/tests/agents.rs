//! Settings of each agent, read from the folder of a test machine.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::PathBuf,
    process::Command,
    thread,
};

use agent_routes::{Machine, Reachability, Report, Verdict, Way};
use tempfile::TempDir;

const GATEWAY: &str = "http://10.0.0.1:8787";
const ELSEWHERE: &str = "http://203.0.113.9:9000";

/// A machine whose files are in a temporary folder.
struct TestMachine {
    folder: TempDir,
    environment: BTreeMap<String, String>,
}

impl TestMachine {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("home/work/project")).unwrap();
        Self {
            folder,
            environment: BTreeMap::new(),
        }
    }

    /// Writes a file, in which `GATEWAY` and `ELSEWHERE` are addresses.
    fn file(self, path: &str, text: &str) -> Self {
        let file = self.folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = text
            .replace("GATEWAY", GATEWAY)
            .replace("ELSEWHERE", ELSEWHERE);
        fs::write(file, text).unwrap();
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        let value = value
            .replace("GATEWAY", GATEWAY)
            .replace("ELSEWHERE", ELSEWHERE);
        self.environment.insert(name.to_owned(), value);
        self
    }

    /// Installs the program of an agent in `PATH`.
    fn program(self, name: &str) -> Self {
        let file = format!("bin/{name}");
        self.file(&file, "").variable("PATH", "/usr/bin:/bin")
    }

    fn machine(&self) -> Machine {
        let root = self.folder.path().to_owned();
        Machine {
            home: root.join("home"),
            project: root.join("home/work/project"),
            root,
            environment: self.environment.clone(),
        }
    }

    fn report(&self) -> Report {
        Report::read(&self.machine(), GATEWAY.parse().unwrap())
    }

    /// Returns the ways of an agent with one kind of login, as `verdict address`.
    fn ways(&self, agent: &str, login: &str) -> Vec<String> {
        let report = self.report();
        let ways = report.ways.iter();
        let ways = ways.filter(|way| way.agent == agent && way.login == login);
        ways.map(line).collect()
    }
}

fn line(way: &Way) -> String {
    let to = way.to.as_ref().map(ToString::to_string);
    format!("{:?} {}", way.verdict, to.unwrap_or_default())
}

#[test]
fn a_machine_without_agents_has_no_ways() {
    let report = TestMachine::new().report();

    assert_eq!(report.ways, []);
    assert_eq!(report.ways_out(), 0);
    assert_eq!(report.absent.len(), 9);
}

#[test]
fn an_agent_without_settings_calls_the_hosts_of_its_apis() {
    let hosts = |program: &str| -> Vec<String> {
        let report = TestMachine::new().program(program).report();
        assert!(report.ways.iter().all(|way| way.verdict == Verdict::Out));
        let to = report.ways.iter().filter_map(|way| way.to.as_ref());
        to.map(|to| to.host.clone()).collect()
    };

    assert_eq!(
        hosts("gemini"),
        [
            "generativelanguage.googleapis.com",
            "aiplatform.googleapis.com",
            "cloudcode-pa.googleapis.com"
        ]
    );
    assert_eq!(hosts("claude"), ["api.anthropic.com"]);
    assert_eq!(hosts("codex"), ["api.openai.com", "chatgpt.com"]);
    let providers = [
        "api.anthropic.com",
        "generativelanguage.googleapis.com",
        "api.openai.com",
    ];
    assert_eq!(hosts("opencode"), providers);
}

#[test]
fn gemini_cli_prefers_the_environment_to_its_files() {
    let machine = TestMachine::new()
        .file(
            "home/work/.gemini/.env",
            "GOOGLE_GEMINI_BASE_URL=ELSEWHERE\n",
        )
        .file("home/.env", "export CODE_ASSIST_ENDPOINT='ELSEWHERE'\n");

    let api_key = machine.ways("gemini-cli", "API key");
    assert_eq!(api_key, Vec::<String>::new(), "not on the machine");

    let machine = machine
        .program("gemini")
        .variable("GOOGLE_GEMINI_BASE_URL", "GATEWAY/s/a");
    let api_key = machine.ways("gemini-cli", "API key");
    assert_eq!(
        api_key,
        ["Gateway 10.0.0.1:8787", "NotInEffect 203.0.113.9:9000"]
    );
    let google = machine.ways("gemini-cli", "Google login");
    assert_eq!(
        google,
        [
            "Out cloudcode-pa.googleapis.com:443",
            "NotInEffect 203.0.113.9:9000"
        ],
        "only the first file is read"
    );
    let vertex = machine.ways("gemini-cli", "Vertex AI");
    assert_eq!(vertex, ["Out aiplatform.googleapis.com:443"]);
}

#[test]
fn an_empty_setting_hides_those_that_it_precedes() {
    let machine = TestMachine::new()
        .program("gemini")
        .file("home/work/project/.env", "GOOGLE_GEMINI_BASE_URL=GATEWAY\n")
        .variable("GOOGLE_GEMINI_BASE_URL", "");
    let ways = machine.ways("gemini-cli", "API key");
    assert_eq!(ways, ["Out generativelanguage.googleapis.com:443"]);

    let settings = r#"{"env": {"ANTHROPIC_BASE_URL": ""}}"#;
    let machine = TestMachine::new()
        .file("home/.claude/settings.json", settings)
        .variable("ANTHROPIC_BASE_URL", "GATEWAY");
    let ways = machine.ways("Claude Code", "Anthropic API");
    assert_eq!(ways, ["Out api.anthropic.com:443"]);

    let variables = "AIDER_OPENAI_API_BASE=\nOPENAI_API_BASE=\nANTHROPIC_API_BASE=\n";
    let machine = TestMachine::new()
        .file("home/.aider.conf.yml", "openai-api-base: GATEWAY/v1\n")
        .file("home/work/project/.env", variables)
        .variable("OPENAI_API_BASE", "GATEWAY/v1")
        .variable("ANTHROPIC_API_BASE", "ELSEWHERE")
        .variable("ANTHROPIC_BASE_URL", "GATEWAY");
    let ways = machine.ways("aider", "OpenAI API");
    assert_eq!(ways, ["Out api.openai.com:443"]);
    let ways = machine.ways("aider", "Anthropic API");
    assert_eq!(ways, ["Gateway 10.0.0.1:8787"], "another variable");
}

#[test]
fn lines_of_an_env_file_do_not_hide_each_other() {
    let text = "NAME=My App\nTIME=it's late\na line\nGOOGLE_GEMINI_BASE_URL=GATEWAY\nOPEN='a\n";
    let machine = TestMachine::new()
        .program("gemini")
        .file("home/work/project/.env", text)
        .file("home/.env", "GOOGLE_GEMINI_BASE_URL=ELSEWHERE\n");

    assert_eq!(machine.report().unreadable, []);
    let ways = machine.ways("gemini-cli", "API key");
    assert_eq!(
        ways,
        ["Gateway 10.0.0.1:8787", "NotInEffect 203.0.113.9:9000"]
    );
}

#[test]
fn gemini_cli_uses_only_the_enforced_login() {
    let settings = r#"{ // comments are allowed
        "security": { "auth": { "enforcedType": "gemini-api-key" } } }"#;
    let machine = TestMachine::new()
        .program("gemini")
        .file("etc/gemini-cli/settings.json", settings)
        .variable("GOOGLE_GEMINI_BASE_URL", "GATEWAY");

    assert_eq!(machine.report().ways_out(), 0);
    assert_eq!(machine.ways("gemini-cli", "Vertex AI"), ["NotInEffect "]);

    let machine = machine.variable("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "/other.json");
    assert_eq!(
        machine.report().ways_out(),
        2,
        "a variable replaces the system's settings"
    );
}

#[test]
fn gemini_cli_calls_one_host_with_several_types_of_login() {
    let ways = |kind: &str, login: &str| {
        let settings = format!(r#"{{"security": {{"auth": {{"enforcedType": "{kind}"}}}}}}"#);
        let machine = TestMachine::new()
            .program("gemini")
            .file("home/.gemini/settings.json", &settings);
        machine.ways("gemini-cli", login)
    };

    let google = ways("compute-default-credentials", "Google login");
    assert_eq!(google, ["Out cloudcode-pa.googleapis.com:443"]);
    let api_key = ways("gateway", "API key");
    assert_eq!(api_key, ["Out generativelanguage.googleapis.com:443"]);
    for kind in ["compute-default-credentials", "gateway"] {
        assert_eq!(ways(kind, "Vertex AI"), ["NotInEffect "], "{kind}");
        assert_eq!(ways(kind, "another login"), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn an_unknown_type_of_login_of_gemini_cli_is_a_way_out() {
    let settings = r#"{"security": {"auth": {"enforcedType": "new-login"}}}"#;
    let machine = TestMachine::new()
        .program("gemini")
        .file("home/.gemini/settings.json", settings);

    assert_eq!(machine.ways("gemini-cli", "another login"), ["Out "]);
    assert_eq!(machine.report().ways_out(), 1);
}

#[test]
fn claude_code_prefers_managed_settings_to_all_others() {
    let user_settings = r#"{"env": {"ANTHROPIC_BASE_URL": "ELSEWHERE"}}"#;
    let machine = TestMachine::new()
        .file("home/.claude/settings.json", user_settings)
        .variable("ANTHROPIC_BASE_URL", "GATEWAY");
    let way = |machine: &TestMachine| machine.ways("Claude Code", "Anthropic API");
    assert_eq!(
        way(&machine),
        ["Out 203.0.113.9:9000", "NotInEffect 10.0.0.1:8787"]
    );

    let managed = r#"{"env": {"ANTHROPIC_BASE_URL": "GATEWAY"}}"#;
    let machine = machine.file("etc/claude-code/managed-settings.json", managed);
    assert_eq!(way(&machine)[0], "Gateway 10.0.0.1:8787");
    assert_eq!(way(&machine)[1], "NotInEffect 203.0.113.9:9000");
}

#[test]
fn claude_code_may_call_other_clouds() {
    let machine = TestMachine::new()
        .variable("ANTHROPIC_BASE_URL", "GATEWAY")
        .file(
            "home/.claude/settings.json",
            r#"{"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}"#,
        )
        .variable("AWS_REGION", "eu-central-1")
        .variable("CLAUDE_CODE_USE_VERTEX", "1")
        .variable("ANTHROPIC_VERTEX_BASE_URL", "GATEWAY");

    let bedrock = machine.ways("Claude Code", "Amazon Bedrock");
    assert_eq!(
        bedrock,
        ["Out bedrock-runtime.eu-central-1.amazonaws.com:443"]
    );
    let vertex = machine.ways("Claude Code", "Vertex AI");
    assert_eq!(vertex, ["Gateway 10.0.0.1:8787"]);
}

#[test]
fn claude_code_switches_may_be_numbers_and_booleans() {
    let bedrock = |switch: &str| {
        let settings = format!(r#"{{"env": {{"CLAUDE_CODE_USE_BEDROCK": {switch}}}}}"#);
        let machine = TestMachine::new().file("home/.claude/settings.json", &settings);
        machine.ways("Claude Code", "Amazon Bedrock")
    };

    for switch in ["1", "true"] {
        let out = ["Out bedrock-runtime.us-east-1.amazonaws.com:443"];
        assert_eq!(bedrock(switch), out, "{switch}");
    }
    for switch in ["0", "false", "null"] {
        assert_eq!(bedrock(switch), Vec::<String>::new(), "{switch}");
    }
}

#[test]
fn codex_calls_the_address_of_its_provider() {
    let config = r#"
        model_provider = "hookgate"
        [model_providers.hookgate]
        base_url = "GATEWAY/v1"
        [model_providers.other]
        base_url = "ELSEWHERE/v1"
    "#;
    let machine = TestMachine::new()
        .file("home/.codex/config.toml", config)
        .variable("OPENAI_BASE_URL", "ELSEWHERE");

    let expected = ["Gateway 10.0.0.1:8787", "NotInEffect 203.0.113.9:9000"];
    assert_eq!(machine.ways("Codex", "API key"), expected);
    assert_eq!(machine.ways("Codex", "ChatGPT login"), expected);
}

#[test]
fn hosts_of_all_apis_are_tried_with_every_setting() {
    let hosts = |machine: &TestMachine| -> Vec<String> {
        let hosts = machine.report().hosts.into_iter();
        hosts.map(|host| host.address.host).collect()
    };
    let without_settings = hosts(&TestMachine::new());
    let codex = "model_provider = 'own'\n[model_providers.own]\nbase_url = 'GATEWAY/v1'\n";
    let machine = TestMachine::new().file("home/.codex/config.toml", codex);

    assert_eq!(without_settings.len(), 6, "{without_settings:?}");
    assert_eq!(hosts(&machine), without_settings);
}

#[test]
fn providers_of_codex_profiles_are_reported() {
    let other = "[model_providers.other]\nbase_url = 'ELSEWHERE/v1'\n";
    let machine = TestMachine::new()
        .file("home/.codex/config.toml", "model = 'm'\n")
        .file("home/.codex/own.config.toml", other);
    let expected = ["Out api.openai.com:443", "NotInEffect 203.0.113.9:9000"];
    assert_eq!(machine.ways("Codex", "API key"), expected);

    let managed = "model_provider = 'other'\n";
    let machine = machine.file("etc/codex/managed_config.toml", managed);
    assert_eq!(
        machine.ways("Codex", "API key")[0],
        "Out ",
        "it has no base_url"
    );
}

#[test]
fn opencode_uses_only_enabled_providers() {
    let user = r#"{"provider": {
        "openai": {"options": {"baseURL": "{env:MY_BASE}"}},
        "own": {"options": {"baseURL": "ELSEWHERE/v1"}}}}"#;
    let machine = TestMachine::new()
        .file("home/.config/opencode/opencode.jsonc", user)
        .variable("MY_BASE", "GATEWAY/v1");
    assert_eq!(
        machine.ways("opencode", "provider openai"),
        ["Gateway 10.0.0.1:8787"]
    );
    assert_eq!(
        machine.ways("opencode", "provider own"),
        ["Out 203.0.113.9:9000"]
    );
    assert_eq!(machine.ways("opencode", "any other provider"), ["Out "]);

    let managed = r#"{"enabled_providers": ["openai"]}"#;
    let machine = machine.file("etc/opencode/opencode.json", managed);
    assert_eq!(machine.report().ways_out(), 0);
    assert_eq!(machine.ways("opencode", "provider own"), ["NotInEffect "]);
}

#[test]
fn an_enabled_provider_of_opencode_without_an_address_is_a_way_out() {
    let config = r#"{"enabled_providers": ["openai", "groq"]}"#;
    let machine = TestMachine::new()
        .file("home/.config/opencode/opencode.json", config)
        .file("home/work/project/opencode.json", &opencode_to("GATEWAY"));

    assert_eq!(machine.ways("opencode", "provider groq"), ["Out "]);
    assert_eq!(machine.report().ways_out(), 1);
}

/// Returns a config of opencode with a base URL.
fn opencode_to(address: &str) -> String {
    format!(r#"{{"provider": {{"openai": {{"options": {{"baseURL": "{address}"}}}}}}}}"#)
}

#[test]
fn opencode_reads_no_settings_above_the_repository() {
    let machine = TestMachine::new()
        .program("opencode")
        .file("home/work/opencode.json", &opencode_to("GATEWAY"))
        .file("home/opencode.json", &opencode_to("GATEWAY"));
    let way = |machine: &TestMachine| machine.ways("opencode", "provider openai")[0].clone();
    assert_eq!(way(&machine), "Gateway 10.0.0.1:8787", "no repository");

    let machine = machine.file("home/work/project/.git/HEAD", "");
    assert_eq!(way(&machine), "Out api.openai.com:443");

    let machine = machine.file("home/.opencode/opencode.json", &opencode_to("ELSEWHERE"));
    assert_eq!(way(&machine), "Out 203.0.113.9:9000");
}

#[test]
fn a_variable_precedes_the_config_files_of_opencode() {
    let machine = TestMachine::new()
        .file(
            "home/work/project/.opencode/opencode.json",
            &opencode_to("GATEWAY"),
        )
        .variable("OPENCODE_CONFIG_CONTENT", &opencode_to("ELSEWHERE"))
        .program("opencode");
    let ways = machine.ways("opencode", "provider openai");
    assert_eq!(ways, ["Out 203.0.113.9:9000", "NotInEffect 10.0.0.1:8787"]);

    let machine = machine.file("etc/opencode/opencode.json", &opencode_to("GATEWAY"));
    let ways = machine.ways("opencode", "provider openai");
    assert_eq!(ways[0], "Gateway 10.0.0.1:8787");

    let machine = machine.variable("OPENCODE_CONFIG_CONTENT", "{secret");
    let unreadable = machine.report().unreadable;
    assert_eq!(unreadable.len(), 1);
    assert_eq!(unreadable[0].file, PathBuf::from("OPENCODE_CONFIG_CONTENT"));
    assert!(!unreadable[0].error.contains("secret"));
}

#[test]
fn aider_reads_the_folder_its_repository_and_the_home_only() {
    let machine = TestMachine::new()
        .program("aider")
        .file("home/work/.aider.conf.yml", "openai-api-base: GATEWAY/v1\n")
        .file("home/work/.env", "GEMINI_API_BASE=GATEWAY\n");
    let way = |machine: &TestMachine, api| machine.ways("aider", api)[0].clone();
    for api in ["OpenAI API", "Gemini API"] {
        let way = way(&machine, api);
        assert!(way.ends_with(".com:443"), "no repository: {way}");
    }

    let machine = machine
        .file("home/work/.git/HEAD", "")
        .file("home/work/project/.env", "GEMINI_API_BASE=ELSEWHERE\n");
    assert_eq!(way(&machine, "OpenAI API"), "Gateway 10.0.0.1:8787");
    assert_eq!(
        way(&machine, "Gemini API"),
        "Gateway 10.0.0.1:8787",
        "aider reads the file of the repository last"
    );
}

#[test]
fn the_base_url_of_the_environment_precedes_the_option_of_aider() {
    let machine = TestMachine::new()
        .file("home/.aider.conf.yml", "openai-api-base: GATEWAY/v1\n")
        .variable("OPENAI_BASE_URL", "ELSEWHERE/v1");

    let expected = ["Out 203.0.113.9:9000", "NotInEffect 10.0.0.1:8787"];
    assert_eq!(machine.ways("aider", "OpenAI API"), expected);
}

#[test]
fn variables_of_aider_precede_its_config() {
    let machine = TestMachine::new()
        .file("home/.aider.conf.yml", "openai-api-base: GATEWAY/v1\n")
        .variable("AIDER_OPENAI_API_BASE", "ELSEWHERE/v1");
    let expected = ["Out 203.0.113.9:9000", "NotInEffect 10.0.0.1:8787"];
    assert_eq!(machine.ways("aider", "OpenAI API"), expected);

    let machine = machine.file("home/.env", "AIDER_OPENAI_API_BASE=GATEWAY/v1\n");
    let ways = machine.ways("aider", "OpenAI API");
    assert_eq!(ways[0], "Gateway 10.0.0.1:8787");
}

#[test]
fn aider_uses_the_last_assignment_of_its_first_config() {
    let config = "set-env:\n  - GEMINI_API_BASE=GATEWAY\n  - GEMINI_API_BASE = ELSEWHERE\n";
    let home = "set-env:\n  - GEMINI_API_BASE=GATEWAY\n  - ANTHROPIC_API_BASE=GATEWAY\n";
    let machine = TestMachine::new()
        .file("home/work/project/.aider.conf.yml", config)
        .file("home/.aider.conf.yml", home);

    let ways = machine.ways("aider", "Gemini API");
    assert_eq!(ways, ["Out 203.0.113.9:9000"]);
    let ways = machine.ways("aider", "Anthropic API");
    assert_eq!(ways, ["Out api.anthropic.com:443"]);
}

#[test]
fn aider_prefers_its_config_and_then_env_files() {
    let config = "openai-api-base: ELSEWHERE/v1\nset-env:\n  - ANTHROPIC_API_BASE=ELSEWHERE\n";
    let machine = TestMachine::new()
        .file("home/.aider.conf.yml", config)
        .file("home/work/project/.env", "GEMINI_API_BASE=ELSEWHERE\n")
        .variable("OPENAI_API_BASE", "GATEWAY/v1")
        .variable("ANTHROPIC_API_BASE", "GATEWAY")
        .variable("GEMINI_API_BASE", "GATEWAY");

    for api in ["OpenAI API", "Anthropic API", "Gemini API"] {
        let ways = machine.ways("aider", api);
        assert_eq!(
            ways,
            ["Out 203.0.113.9:9000", "NotInEffect 10.0.0.1:8787"],
            "{api}"
        );
    }
}

#[test]
fn llxprt_code_calls_the_address_of_its_profile() {
    let profile = r#"{"provider": "anthropic", "ephemeralSettings": {"base-url": "GATEWAY"}}"#;
    let machine = TestMachine::new().file("home/.llxprt/profiles/a.json", profile);

    let ways = machine.ways("LLxprt Code", "profile for anthropic");
    assert_eq!(ways, ["Gateway 10.0.0.1:8787"]);
    let ways = machine.ways("LLxprt Code", "provider openai");
    assert_eq!(ways, ["Out api.openai.com:443"]);
}

#[test]
fn credentials_are_reported_by_location_and_not_by_value() {
    let machine = TestMachine::new()
        .program("gemini")
        .file("home/.gemini/oauth_creds.json", "secret-1")
        .file("home/.codex/auth.json", "secret-2")
        .variable("GEMINI_API_KEY", "secret-3")
        .variable("ANTHROPIC_API_KEY", "secret-4");

    let report = machine.report();
    let json = serde_json::to_string(&report).unwrap();
    assert!(!json.contains("secret-"), "{json}");
    for place in [
        ".gemini/oauth_creds.json",
        ".codex/auth.json",
        "GEMINI_API_KEY in the environment",
    ] {
        assert!(json.contains(place), "{place}: {json}");
    }
}

#[test]
fn unreadable_files_are_reported_without_their_content() {
    let machine = TestMachine::new()
        .file("home/.claude/settings.json", "{\n\"env\": secret}")
        .file("home/.codex/config.toml", "a = 'é'\nb = secret")
        .file("home/.aider.conf.yml", "a: b\nc: secret: d")
        .file("home/.env", "a line that is ignored\n");
    fs::create_dir_all(machine.folder.path().join("home/.gemini/settings.json")).unwrap();

    let unreadable = machine.report().unreadable;
    let names: Vec<PathBuf> = unreadable.iter().map(|entry| entry.file.clone()).collect();
    let home = machine.folder.path().join("home");
    let expected = [
        ".aider.conf.yml",
        ".claude/settings.json",
        ".codex/config.toml",
        ".gemini/settings.json",
    ];
    assert_eq!(names, expected.map(|file| home.join(file)));
    let errors: Vec<&str> = unreadable
        .iter()
        .map(|entry| entry.error.as_str())
        .collect();
    assert_eq!(
        errors[..3],
        [
            "not valid YAML at line 2, column 10",
            "not valid JSON at line 2, column 8",
            "not valid TOML at line 2, column 5",
        ]
    );
    assert!(errors.iter().all(|error| !error.contains("secret")));
}

#[test]
fn files_that_their_agent_refuses_are_unreadable() {
    let claude_code = "home/.claude/settings.json";
    let gemini_cli = "home/.gemini/settings.json";
    let llxprt = "home/.llxprt/profiles/work.json";
    let opencode = "home/.config/opencode/opencode.json";
    let opencode_logins = "home/.local/share/opencode/auth.json";
    let unreadable = |file: &str, text: &str| {
        let report = TestMachine::new().file(file, text).report();
        report.unreadable.len()
    };

    for (file, text) in [
        (claude_code, r#"{"env": {},}"#),
        (claude_code, r#"{"env": {}} // a comment"#),
        (claude_code, "{\"env\": \"two\nlines\"}"),
        (gemini_cli, r#"{"security": {},}"#),
        (gemini_cli, "{security: {}}"),
        (gemini_cli, "\u{feff}{}"),
        (llxprt, r#"{"version": 1} // a comment"#),
        (opencode, "{'provider': {}}"),
        (opencode, r#"{"model": "m" "provider": {}}"#),
        (opencode_logins, r#"{"openai": {},}"#),
    ] {
        assert_eq!(unreadable(file, text), 1, "{file}: {text}");
    }
    for (file, text) in [
        (claude_code, "\u{feff}{\"env\": {}}"),
        (claude_code, "\n"),
        (gemini_cli, r#"{"security": {} /* a comment */}"#),
        (opencode, "\u{feff}{\"provider\": {},} // a comment"),
    ] {
        assert_eq!(unreadable(file, text), 0, "{file}: {text}");
    }
}

#[test]
fn a_named_pipe_does_not_block_the_report() {
    let machine = TestMachine::new();
    let pipe = machine.folder.path().join("home/work/project/.env");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());

    let unreadable = machine.report().unreadable;
    assert_eq!(unreadable.len(), 1);
    assert_eq!(unreadable[0].file, pipe);
}

#[test]
fn an_invalid_address_counts_as_a_way_out() {
    let machine = TestMachine::new().variable("OPENAI_BASE_URL", "http://");

    assert_eq!(machine.ways("OpenAI SDKs", "OpenAI API"), ["Out "]);
}

#[tokio::test]
async fn a_host_with_the_address_of_the_gateway_is_tried_through_proxies() {
    let gateway = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = gateway.local_addr().unwrap().port();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy_url = format!("http://{}", proxy.local_addr().unwrap());
    thread::spawn(move || {
        for stream in proxy.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        }
    });
    let reached = async |machine: Machine| {
        let gateway = format!("127.0.0.1:{port}").parse().unwrap();
        let mut report = Report::read(&machine, gateway);
        report.hosts.clear();
        report.add_host(format!("localhost:{port}").parse().unwrap());
        report.probe_hosts(&machine).await;
        report.hosts.remove(0).reachability
    };

    let machine = TestMachine::new();
    assert_eq!(reached(machine.machine()).await, Reachability::Gateway);

    let machine = machine.variable("HTTPS_PROXY", &proxy_url);
    let through = reached(machine.machine()).await;
    assert!(matches!(through, Reachability::Through(_)), "{through:?}");
}
