//! Predicted answers of a cluster.

use std::sync::Arc;

use jobgate_core::admission::dry_run::Prediction;
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;

use crate::located::Location;
use crate::object::ObjectId;

/// The predicted answer for one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// Where the object starts.
    pub location: Location,
    /// The document's number in the file, from 0.
    pub document: usize,
    /// The Helm template that rendered the document.
    pub source: Option<String>,
    /// The object.
    pub object: Arc<ObjectId>,
    /// The answer. Its findings are in the report.
    pub answer: Prediction,
    /// Whether the training operator's webhook would reject it.
    pub operator_refuses: bool,
    /// The pods of its templates, if they were asked for and it would be stored.
    pub pods: Vec<PodOfTemplate>,
}

/// A pod that is made of a template, to ask a cluster about.
#[derive(Clone, Debug, PartialEq)]
pub struct PodOfTemplate {
    /// Where the template is.
    pub location: Location,
    /// The template in the document.
    pub template: Pointer,
    /// The pod, without a namespace.
    pub pod: Value,
    /// Whether the cluster refuses it.
    pub refused: bool,
}
