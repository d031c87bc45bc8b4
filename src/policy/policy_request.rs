//! One request as policies see and change it.

use crate::{
    dialect::{Call, Dialect, DialectError, Document, TextEditor},
    model::{ModelName, RequestMutation},
};

/// A request before it is sent.
#[derive(Debug, Clone)]
pub struct PolicyRequest {
    /// How it is written.
    pub dialect: &'static dyn Dialect,
    /// What it asks for.
    pub call: Call,
    /// Its body.
    pub document: Document,
    /// Whether a policy changed anything.
    pub edited: bool,
}

impl PolicyRequest {
    /// The name of the model asked for; an error if the body names another.
    pub fn model(&self) -> Result<&str, DialectError> {
        self.dialect.check_model(&self.call, &self.document)?;
        Ok(self.call.model_name())
    }

    /// What the user says anew, text by text; nothing if only tools answered.
    pub fn prompt(&self) -> Result<Vec<String>, DialectError> {
        self.dialect.prompt(&self.call, &self.document)
    }

    /// The size of the body, in bytes.
    pub fn bytes(&self) -> usize {
        self.document.to_bytes().len()
    }

    /// Asks another model.
    pub fn set_model(&mut self, model: &ModelName) -> Result<(), DialectError> {
        let name = model.as_str().into();
        self.write([("model", name)])
    }

    /// Changes fields of the stable form.
    pub fn write<const N: usize>(
        &mut self,
        fields: [(&str, serde_json::Value); N],
    ) -> Result<(), DialectError> {
        let fields = fields.map(|(key, value)| (key.to_owned(), value));
        let mutation = RequestMutation {
            fields: fields.into_iter().collect(),
            remark: None,
        };
        let edited = self
            .dialect
            .write_request(&self.call, self.document.clone(), &mutation)?;
        self.document = edited.document;
        if let Some(model) = edited.model {
            self.call.model = Some(model);
        }
        self.edited = true;
        Ok(())
    }

    /// Lets `editor` edit every text that a model reads. Whether it edited any,
    /// only the editor knows.
    pub fn edit_texts(&mut self, editor: &mut dyn TextEditor) -> Result<(), DialectError> {
        let document = &mut self.document;
        self.dialect.edit_texts(&self.call, document, editor)
    }

    /// Takes tools out that `keeps` does not keep.
    pub fn withhold_tools(&mut self, keeps: &dyn Fn(&str) -> bool) -> Result<(), DialectError> {
        let document = &mut self.document;
        let withheld = self.dialect.withhold_tools(&self.call, document, keeps)?;
        self.edited |= !withheld.is_empty();
        Ok(())
    }
}
