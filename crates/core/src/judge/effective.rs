//! The settings of one rule, as its check reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::judge::action::Action;
use crate::judge::params::{Flag, Mapping, Number, Param, ParamDefault, Strings, Word};
use crate::text::value::Value;

/// A rule's settings for one object, resolved. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The action.
    pub action: Action,
    pub(super) params: Arc<BTreeMap<&'static str, Value>>,
}

impl Effective {
    /// Returns the settings of a rule that no policy changes.
    pub(super) fn new(action: Action, params: &[Param]) -> Self {
        let params = params.iter().map(|param| (param.name, param.default.to_value())).collect();
        Self { action, params: Arc::new(params) }
    }

    /// Overrides the action, and values of parameters.
    pub(super) fn apply(
        &mut self,
        action: Option<Action>,
        params: impl Iterator<Item = (&'static str, Value)>,
    ) {
        self.action = action.unwrap_or(self.action);
        let mut params = params.peekable();
        if params.peek().is_some() {
            Arc::make_mut(&mut self.params).extend(params);
        }
    }

    /// Returns the value of a parameter that the rule declares.
    pub(super) fn param(&self, name: &str) -> Option<&Value> {
        self.params.get(name)
    }

    /// Returns a parameter's value. One that the rule does not declare cannot be set, and has its own default.
    fn value(&self, param: &Param) -> Option<&Value> {
        let value = self.param(param.name);
        debug_assert!(value.is_some(), "the rule does not declare its parameter `{}`", param.name);
        value
    }

    /// Returns a boolean parameter.
    #[must_use]
    pub(crate) fn flag(&self, param: &Flag) -> bool {
        let default = matches!(param.0.default, ParamDefault::Bool(true));
        self.value(&param.0).and_then(Value::as_bool).unwrap_or(default)
    }

    /// Returns an integer parameter.
    #[must_use]
    pub(crate) fn number(&self, param: &Number) -> i64 {
        let default = if let ParamDefault::Int { value, .. } = param.0.default { value } else { 0 };
        self.value(&param.0).and_then(Value::as_i64).unwrap_or(default)
    }

    /// Returns a list parameter.
    pub(crate) fn strings(&self, param: &Strings) -> impl Iterator<Item = &str> + use<'_> {
        let own = self.value(&param.0).and_then(Value::as_array);
        let default = if let ParamDefault::Strings(list) = param.0.default { list } else { &[] };
        let default = if own.is_some() { &[] } else { default };
        own.into_iter().flatten().filter_map(Value::as_str).chain(default.iter().copied())
    }

    /// Returns a parameter with a fixed set of values.
    #[must_use]
    pub(crate) fn word(&self, param: &Word) -> &str {
        let default = if let ParamDefault::Word(words) = param.0.default { words.first() } else { None };
        let own = self.value(&param.0).and_then(Value::as_str);
        own.or_else(|| default.copied()).unwrap_or_default()
    }

    /// Returns a mapping parameter, in key order.
    pub(crate) fn mapping(&self, param: &Mapping) -> impl Iterator<Item = (&str, &str)> + use<'_> {
        let own = self.value(&param.0).and_then(Value::as_object);
        let default = if let ParamDefault::Map(map) = param.0.default { map } else { &[] };
        let default = if own.is_some() { &[] } else { default };
        let own = own.into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?)));
        own.chain(default.iter().copied())
    }
}
