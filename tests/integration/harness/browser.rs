//! A browser of the console: keeps one cookie, follows no redirects and submits forms.

use std::net::SocketAddr;

use http::HeaderMap;
use url::form_urlencoded;

use super::TestGateway;

/// A browser without scripts.
#[derive(Clone)]
pub struct Browser {
    base: String,
    client: reqwest::Client,
    cookie: String,
}

/// A page, or a redirect to another.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub headers: HeaderMap,
    pub html: String,
}

impl Browser {
    pub fn at(gateway: &TestGateway) -> Self {
        Self::at_address(gateway.operators)
    }

    pub fn at_address(operators: SocketAddr) -> Self {
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none());
        Self {
            base: format!("http://{operators}"),
            client: client.build().unwrap(),
            cookie: String::new(),
        }
    }

    /// Submits the login form and keeps the cookie of the response.
    pub async fn log_in(&mut self, token: &str, next: &str) -> Page {
        let fields = [("token", token), ("next", next)];
        let answer = self.post("/console/login", &fields).await;
        if let Some((cookie, _)) = answer.header("set-cookie").split_once(';') {
            cookie.clone_into(&mut self.cookie);
        }
        answer
    }

    pub async fn get(&self, path: &str) -> Page {
        let request = self.client.get(format!("{}{path}", self.base));
        self.send(request).await
    }

    /// Submits a form as a page of the console does.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = [("origin", "null"), ("sec-fetch-site", "same-origin")];
        self.post_from(path, fields, &origin).await
    }

    /// Submits a form with these headers.
    pub async fn post_from(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Page {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields);
        let mut request = self
            .client
            .post(format!("{}{path}", self.base))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.finish());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request).await
    }

    /// Opens a stream. Returns its response before the body.
    pub async fn open(&self, path: &str) -> reqwest::Response {
        let request = self.client.get(format!("{}{path}", self.base));
        request.header("cookie", &self.cookie).send().await.unwrap()
    }

    /// Returns the CSRF token of the forms on a page.
    pub async fn csrf(&self, path: &str) -> String {
        let page = self.get(path).await;
        let (_, rest) = page.html.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Page {
        let request = match self.cookie.as_str() {
            "" => request,
            cookie => request.header("cookie", cookie),
        };
        let response = request.send().await.unwrap();
        Page {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            html: response.text().await.unwrap(),
        }
    }
}

impl Page {
    /// Returns the value of a header, or the empty text.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}
