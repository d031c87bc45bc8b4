//! Console access: logins, open redirects, CSRF protection, roles and security headers.

use serde_json::json;

use super::{USERS, logged_in, with_users};
use crate::harness::{Agent, Browser, TestGateway, Upstream};

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'";

#[tokio::test]
async fn without_a_credential_the_console_is_open_on_loopback() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let browser = Browser::at(&gateway);

    let start = browser.get("/").await;
    let page = browser.get("/console/").await;

    assert_eq!((start.status, start.header("location")), (303, "/console/"));
    assert_eq!(page.status, 200);
    assert!(page.html.contains("<h1>Overview</h1>"), "{}", page.html);
    assert!(!page.html.contains("Log out"), "{}", page.html);
}

#[tokio::test]
async fn a_login_redirects_back_to_the_requested_page() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let mut browser = Browser::at(&gateway);

    let refused = browser.get("/console/calls?verdict=deny").await;
    let form = browser.get(refused.header("location")).await;
    let login = browser
        .log_in("vera-token", "/console/calls?verdict=deny")
        .await;
    let page = browser.get(login.header("location")).await;

    assert_eq!(refused.status, 303);
    let expected = "/console/login?next=%2Fconsole%2Fcalls%3Fverdict%3Ddeny";
    assert_eq!(refused.header("location"), expected);
    assert!(
        form.html.contains("value=\"/console/calls?verdict=deny\""),
        "{}",
        form.html
    );
    assert_eq!(login.header("location"), "/console/calls?verdict=deny");
    let cookie = login.header("set-cookie");
    let (id, attributes) = cookie.split_once(';').unwrap();
    assert!(id.starts_with("hookgate-0=") && id.len() > 50, "{cookie}");
    assert_eq!(attributes, " HttpOnly; SameSite=Strict; Path=/");
    assert_eq!(page.status, 200);
    assert!(page.html.contains("vera"), "{}", page.html);
}

#[tokio::test]
async fn the_cookie_of_a_login_has_the_port_of_its_gateway() {
    let upstream = Upstream::mock().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let config = USERS.replace("127.0.0.1:0", &address.to_string());
    let gateway = TestGateway::with_files(&upstream, &config, &super::TOKENS).await;

    let login = Browser::at(&gateway).log_in("vera-token", "").await;

    let cookie = login.header("set-cookie");
    let expected = format!("hookgate-{}=", address.port());
    assert!(cookie.starts_with(&expected), "{cookie}");
}

#[tokio::test]
async fn a_login_redirects_only_to_pages_of_the_console() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;

    for next in [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil",
        "/metrics",
        "/console/\u{1}",
    ] {
        let login = Browser::at(&gateway).log_in("vera-token", next).await;
        assert_eq!(login.header("location"), "/console/", "{next}");
    }
}

#[tokio::test]
async fn failed_logins_start_no_session_and_are_throttled() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let mut browser = Browser::at(&gateway);

    let mut statuses = Vec::new();
    for _ in 0..21 {
        let answer = browser.log_in("made-up", "").await;
        assert_eq!(answer.header("set-cookie"), "");
        statuses.push(answer.status);
    }
    let throttled = browser.log_in("vera-token", "").await;

    assert_eq!(statuses[..20], [401; 20]);
    assert_eq!(statuses[20], 429);
    assert_eq!(
        throttled.status, 429,
        "a throttled login does not confirm a token"
    );
    let seconds: u64 = throttled.header("retry-after").parse().unwrap();
    let problem = format!("attempts from this address; try again in {seconds} s");
    assert!(throttled.html.contains(&problem), "{}", throttled.html);
}

#[tokio::test]
async fn rejected_credentials_of_operators_are_counted() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let with_token = |token: &str| {
        let authorization = format!("Bearer {token}");
        gateway.operator().sending("authorization", authorization)
    };

    let login = Browser::at(&gateway).log_in("made-up", "").await;
    let request = with_token("made-up").get("/overview").await;

    assert_eq!((login.status, request.status), (401, 401));
    let series = "hookgate_auth_failures_total{reason=\"unknown\"}";
    assert_eq!(with_token("vera-token").metric(series).await, 2);
}

#[tokio::test]
async fn a_login_expires_after_its_lifetime() {
    let upstream = Upstream::mock().await;
    let config = USERS.replace("users:", "login: { lifetime: 300ms }, users:");
    let gateway = TestGateway::with_files(&upstream, &config, &super::TOKENS).await;
    let browser = logged_in(&gateway, "vera").await;

    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while browser.get("/console/").await.status == 200 {
        assert!(
            std::time::Instant::now() < deadline,
            "the login does not expire"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }

    let expired = browser.get("/console/").await;
    assert_eq!(
        expired.header("location"),
        "/console/login?next=%2Fconsole%2F"
    );
}

#[tokio::test]
async fn a_logout_ends_the_session() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let browser = logged_in(&gateway, "vera").await;
    let csrf = browser.csrf("/console/").await;

    let forged = browser.post("/console/logout", &[("csrf", "x")]).await;
    assert_eq!(forged.status, 403);
    assert_eq!(browser.get("/console/").await.status, 200);
    let logout = browser.post("/console/logout", &[("csrf", &csrf)]).await;

    assert_eq!(logout.header("location"), "/console/login");
    assert!(logout.header("set-cookie").ends_with("Max-Age=0"));
    assert_eq!(browser.get("/console/").await.status, 303);
}

#[tokio::test]
async fn forms_require_a_csrf_token_and_a_same_origin_request() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let browser = logged_in(&gateway, "olga").await;
    let other = logged_in(&gateway, "vera").await;
    let csrf = browser.csrf("/console/config").await;
    let foreign_csrf = other.csrf("/console/config").await;
    let own = format!("http://{}", gateway.operators);
    let same = [("origin", "null"), ("sec-fetch-site", "same-origin")];
    let reload = "/console/config/reload";

    for (fields, headers, status) in [
        (&[("csrf", &*csrf)][..], &same[..], 303),
        (&[("csrf", &csrf)], &[("origin", &own)], 303),
        (&[], &same, 403),
        (&[("csrf", &foreign_csrf)], &same, 403),
        (
            &[("csrf", &csrf)],
            &[("origin", "https://evil.example")],
            403,
        ),
        (&[("csrf", &csrf)], &[("origin", "null")], 403),
        (
            &[("csrf", &csrf)],
            &[("origin", "null"), ("sec-fetch-site", "cross-site")],
            403,
        ),
        (&[("csrf", &csrf)], &[("sec-fetch-site", "same-site")], 403),
    ] {
        let answer = browser.post_from(reload, fields, headers).await;
        assert_eq!(answer.status, status, "{fields:?} {headers:?}");
    }
}

#[tokio::test]
async fn a_form_without_a_known_origin_is_refused_with_a_note_on_tls() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let fields = [("token", "vera-token"), ("next", "")];
    let log_in = async |headers: &[(&str, &str)]| {
        let browser = Browser::at(&gateway);
        browser.post_from("/console/login", &fields, headers).await
    };

    for (headers, note) in [
        // A browser at an address of another machine, over plain HTTP.
        (&[("origin", "null")][..], "TLS or the address `localhost`"),
        (
            &[("origin", "null"), ("sec-fetch-site", "cross-site")],
            "`browsers.origins`",
        ),
        (&[("origin", "https://evil.example")], "`browsers.origins`"),
    ] {
        let answer = log_in(headers).await;
        assert_eq!(answer.status, 403, "{headers:?}");
        assert!(answer.html.contains("FOREIGN_ORIGIN"), "{}", answer.html);
        assert!(answer.html.contains(note), "{headers:?}: {}", answer.html);
    }
}

#[tokio::test]
async fn a_form_of_an_earlier_login_is_refused_with_the_way_to_send_it_again() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let earlier = logged_in(&gateway, "olga").await;
    let csrf = earlier.csrf("/console/config").await;
    let browser = logged_in(&gateway, "olga").await;

    let fields = [("csrf", &*csrf)];
    let refused = browser.post("/console/config/reload", &fields).await;
    let headers = [
        ("sec-fetch-site", "same-origin"),
        ("x-hookgate-csrf", &*csrf),
    ];
    let refused_json = browser.post_from("/reload", &[], &headers).await;

    assert_eq!((refused.status, refused_json.status), (403, 403));
    let remedy = "go back and reload that page, then send it again";
    assert!(refused.html.contains(remedy), "{}", refused.html);
    let remedy = "use the token of the present login";
    assert!(refused_json.html.contains(remedy), "{}", refused_json.html);
}

#[tokio::test]
async fn state_changing_api_requests_with_a_session_require_a_csrf_token() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let browser = logged_in(&gateway, "olga").await;
    let csrf = browser.csrf("/console/").await;
    let same = ("sec-fetch-site", "same-origin");

    let without_token = browser.post_from("/reload", &[], &[same]).await;
    let with_token = browser
        .post_from("/reload", &[], &[same, ("x-hookgate-csrf", &csrf)])
        .await;

    assert_eq!(without_token.status, 403);
    assert!(
        without_token.html.contains("BAD_CSRF_TOKEN"),
        "{}",
        without_token.html
    );
    // This gateway has no config file.
    assert_eq!(with_token.status, 400);
    assert!(
        with_token.html.contains("BAD_CONFIG"),
        "{}",
        with_token.html
    );
}

#[tokio::test]
async fn each_user_may_do_what_the_role_allows() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let event = json!({ "hook_event_name": "BeforeTool", "tool_name": "t" });
    let plan = json!({ "input": event }).to_string();
    let run = json!({ "input": event, "mode": "run" }).to_string();

    for (user, reload, tried, content) in [
        ("vera", 403, 403, 403),
        ("ivan", 403, 403, 404),
        ("olga", 400, 200, 403),
    ] {
        let bearer = format!("Bearer {user}-token");
        let operator = gateway.operator().sending("authorization", bearer);
        assert_eq!(operator.get("/metrics").await.status, 200, "{user}");
        assert_eq!(
            operator.post("/try", plan.clone()).await.status,
            200,
            "{user}"
        );
        assert_eq!(operator.post("/reload", "").await.status, reload, "{user}");
        assert_eq!(
            operator.post("/try", run.clone()).await.status,
            tried,
            "{user}"
        );
        let answer = operator.get("/calls/unknown/content").await;
        assert_eq!(answer.status, content, "{user}");
    }
}

#[tokio::test]
async fn the_reload_button_and_its_form_require_the_operator_role() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;

    for (user, may_reload) in [("vera", false), ("ivan", false), ("olga", true)] {
        let page = logged_in(&gateway, user).await.get("/console/config").await;
        let has_button = page.html.contains("Reload the config files");
        assert_eq!(has_button, may_reload, "{user}");
    }
    let viewer = logged_in(&gateway, "vera").await;
    let csrf = viewer.csrf("/console/").await;
    let forged = viewer
        .post("/console/config/reload", &[("csrf", &csrf)])
        .await;
    assert_eq!(forged.status, 403);
    assert!(forged.html.contains("operator"), "{}", forged.html);
}

#[tokio::test]
async fn the_admin_token_has_every_role() {
    let upstream = Upstream::mock().await;
    let config = "admin: { listen: 127.0.0.1:0, token: { file: token } }";
    let gateway = TestGateway::with_files(&upstream, config, &[("token", "s3cret\n")]).await;
    let mut browser = Browser::at(&gateway);

    browser.log_in("s3cret", "").await;
    let page = browser.get("/console/config").await;

    assert!(
        page.html.contains("viewer, investigator, operator"),
        "{}",
        page.html
    );
    assert!(
        page.html.contains("Reload the config files"),
        "{}",
        page.html
    );
    assert!(!page.html.contains("s3cret"));
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let browser = logged_in(&gateway, "olga").await;
    let page = browser.get("/console/").await;
    let asset = page
        .html
        .split('"')
        .find(|text| text.contains("/assets/") && text.contains(".css"));
    let asset = asset.unwrap();

    for (path, status) in [
        ("/console/", 200),
        ("/console/login", 303),
        ("/console/nowhere", 403),
        ("/console/calls/unknown", 404),
        ("/console", 303),
        (asset, 200),
    ] {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("content-security-policy"), CSP, "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(
            answer.header("cross-origin-opener-policy"),
            "same-origin",
            "{path}"
        );
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        let expected = if path == asset {
            "public, max-age=31536000, immutable"
        } else {
            "no-store"
        };
        assert_eq!(answer.header("cache-control"), expected, "{path}");
    }
}

#[tokio::test]
async fn the_console_can_be_disabled() {
    let upstream = Upstream::mock().await;
    let config = "admin: { listen: 127.0.0.1:0, console: false }";
    let gateway = TestGateway::start(&upstream, config).await;
    let operator = Agent::at(gateway.operators);

    for path in ["/", "/console/", "/console/login"] {
        assert_eq!(operator.get(path).await.status, 403, "{path}");
    }
    assert_eq!(operator.get("/metrics").await.status, 200);
}

#[tokio::test]
async fn unknown_session_cookies_are_refused() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    logged_in(&gateway, "olga").await;

    let names = ["hookgate-0", "__Host-hookgate-0"];
    for cookie in names.map(|name| format!("{name}=made-up")) {
        let agent = gateway.operator().sending("cookie", &cookie);
        assert_eq!(agent.get("/metrics").await.status, 401, "{cookie}");
    }
}

#[tokio::test]
async fn the_login_page_leads_on_if_the_user_is_logged_in() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let browser = logged_in(&gateway, "vera").await;

    let login = browser.get("/console/login?next=/console/calls").await;

    assert_eq!(login.status, 303);
    assert_eq!(login.header("location"), "/console/calls");
}

#[tokio::test]
async fn a_link_of_another_site_leads_to_a_link_and_nothing_else() {
    let upstream = Upstream::mock().await;
    let open = TestGateway::start(&upstream, "").await;
    let closed = with_users(&upstream, "").await;
    let send = async |agent: Agent, path: &str, site: &str, mode: &str, dest: &str| {
        let agent = agent.sending("sec-fetch-site", site);
        let agent = agent.sending("sec-fetch-mode", mode);
        agent.sending("sec-fetch-dest", dest).get(path).await
    };

    for site in ["cross-site", "same-site"] {
        for gateway in [&open, &closed] {
            for path in ["/", "/console/", "/console/calls?a=%22&b", "/console/login"] {
                let operator = gateway.operator();
                let page = send(operator, path, site, "navigate", "document").await;
                assert_eq!(page.status, 200, "{site} {path}");
                let link = format!("<a href=\"{}\">Continue to ", path.replace('&', "&amp;"));
                assert!(page.text().contains(&link), "{site} {}", page.text());
                assert!(page.text().contains("<h1>Link</h1>"), "{site} {path}");
            }
        }
        for (mode, dest) in [
            ("navigate", "iframe"),
            ("navigate", "object"),
            ("no-cors", "image"),
            ("no-cors", "script"),
            ("cors", "empty"),
            ("cors", "document"),
        ] {
            let refused = send(open.operator(), "/console/", site, mode, dest).await;
            assert_eq!(refused.status, 403, "{site} {mode} {dest}");
        }
        for (agent, path) in [
            (open.operator(), "/overview"),
            (open.agent(), "/v1beta/models"),
            (open.agent(), "/console/"),
        ] {
            let refused = send(agent, path, site, "navigate", "document").await;
            assert_eq!(refused.status, 403, "{site} {path}");
        }
        let form = open.operator().sending("sec-fetch-site", site);
        let form = form.sending("sec-fetch-mode", "navigate");
        let form = form.sending("sec-fetch-dest", "document");
        assert_eq!(form.post("/reload", "").await.status, 403, "{site}");
    }
}
