//! A request as policies read and edit it.

use crate::{
    dialect::{self, Call, DialectError, Document, TextEditor},
    model::{ModelName, RequestMutation},
};

/// A request before it is sent.
#[derive(Debug, Clone)]
pub struct PolicyRequest {
    /// Method and model of the request.
    pub call: Call,
    /// Body of the request.
    pub document: Document,
    /// Whether a policy changed anything.
    pub edited: bool,
}

impl PolicyRequest {
    /// The name of the requested model.
    ///
    /// # Errors
    ///
    /// Fails if the body names another model than the path.
    pub fn model(&self) -> Result<&str, DialectError> {
        dialect::check_model(&self.call, &self.document)?;
        Ok(self.call.model_name())
    }

    /// The texts of the new user prompt; empty if the request only has new tool
    /// results.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be read.
    pub fn prompt(&self) -> Result<Vec<String>, DialectError> {
        dialect::new_prompt(&self.call, &self.document)
    }

    /// Length of the body, in bytes.
    pub fn bytes(&self) -> usize {
        self.document.to_bytes().len()
    }

    /// Replaces the requested model.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be edited.
    pub fn set_model(&mut self, model: &ModelName) -> Result<(), DialectError> {
        self.set_field("model", model.as_str().into())
    }

    /// Replaces a field of the stable form.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be edited.
    pub fn set_field(&mut self, name: &str, value: serde_json::Value) -> Result<(), DialectError> {
        let mutation = RequestMutation {
            fields: [(name.to_owned(), value)].into_iter().collect(),
            appended_text: None,
        };
        let edited = dialect::write_request(&self.call, self.document.clone(), &mutation)?;
        self.document = edited.document;
        if let Some(model) = edited.model {
            self.call.model = Some(model);
        }
        self.edited = true;
        Ok(())
    }

    /// Passes every text that a model reads to `editor`. Does not set `edited`: the
    /// caller asks the editor whether anything changed.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be read or edited.
    pub fn edit_texts(&mut self, editor: &mut dyn TextEditor) -> Result<(), DialectError> {
        let document = &mut self.document;
        dialect::edit_request_texts(&self.call, document, editor)
    }

    /// Removes the declared tools for which `keeps` is false.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be read or edited.
    pub fn withhold_tools(&mut self, keeps: &dyn Fn(&str) -> bool) -> Result<(), DialectError> {
        let document = &mut self.document;
        let withheld = dialect::withhold_tools(&self.call, document, keeps)?;
        self.edited |= !withheld.is_empty();
        Ok(())
    }
}
