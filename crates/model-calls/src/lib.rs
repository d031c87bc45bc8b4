//! Calls of model APIs in one stable form, and in the form of each API.
//!
//! Agents call the APIs of Google, Anthropic and OpenAI, each with paths, documents and
//! streams of its own. [`dialect`] recognizes a call, reads its document, and writes edits
//! back without changing other bytes. [`model`] is the one form in which hooks see the
//! requests and responses of all of them.
//!
//! ```
//! use http::Method;
//! use model_calls::{dialect::{self, RequestLine}, model::ModelName};
//!
//! let line = RequestLine {
//!     method: &Method::POST,
//!     path: "/v1beta/models/gemini-2.5-pro:generateContent",
//!     query: "",
//!     api: None,
//! };
//! let recognized = dialect::recognize_call(line).ok_or("unknown path")??;
//! let mut call = recognized.call?;
//! assert_eq!(call.model.as_ref().map(ModelName::as_str), Some("gemini-2.5-pro"));
//!
//! let dialect = dialect::of(recognized.method.api);
//! let body = r#"{"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}"#;
//! let opened = dialect.open_request(&mut call, dialect.parse_request(body.into())?)?;
//! let parts = dialect::prompt_parts(&opened.form)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here waits, opens a connection or keeps state.

pub mod dialect;
pub mod model;
