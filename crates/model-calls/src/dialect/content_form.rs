//! The content form of requests and responses: what APIs of other families are read into.
//!
//! Bodies of the Gemini API are in the content form already. A dialect of another family
//! reads each message into a content and each block into a part, with its place in the
//! API's own list in the field [`SOURCE`]. What hookgate must not touch, such as thinking and
//! signatures, has no part. To write an edit back, the dialect reads the unedited body again
//! and gives both lists to [`splice_list`].

mod hosted_calls;
mod hosted_servers;
mod labels;
mod object_search;
mod other_models;
mod private_fields;
mod refusals;
mod splice;
mod text_template;

pub use self::{
    hosted_calls::HostedPart,
    hosted_servers::{declared_server, hosted_servers, is_hosted_server},
    labels::{
        ActOnObject, AnswerLabels, RequestLabels, VisitObjects, add_labels, has_other_content,
        join_labels, keep_fields, read_labels, remove_labels, visit_details, write_labels,
    },
    object_search::{any_object, any_object_with, holds_id, may_hold},
    other_models::{
        FALLBACK_MODELS, compatible_models, hosted_tool, named_models, other_models, read_names,
    },
    private_fields::{refuse_private_fields, shown_to_hooks, without_private_fields},
    refusals::is_refusal,
    splice::{first_candidates, numbered, parts_in, source_of, splice_list, with_source},
    text_template::{TextEvent, TextTemplate},
};
pub use crate::dialect::google::fields::{IS_REFUSAL, PRECEDING, SOURCE, STARTS_TEXT};
