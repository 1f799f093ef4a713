//! Reads the source of a [`Policy`], or reports all its errors.

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::{Action, Exemption, KIND, Matcher, OptOut, Override, Policy, PolicyErrors, RuleSettings, tables};
use crate::controllers::incident::Duration;
use crate::controllers::time::Time;
use crate::judge::checks;
use crate::judge::finding::Part;
use crate::judge::rule::{Param, ParamDefault, Rule};
use crate::judge::rules::RuleSet;
use crate::judge::settings::{self, Field, Fields, Form, Reader, hint, one_of, shown, what};
use crate::judge::simulation::ProgramDefaults;
use crate::kinds::Kind;
use crate::text::pointer::Pointer;
use crate::text::value::{Map, Value};

/// The form of a policy's file.
const FORM: Form = Form { kind: KIND, noun: "policy" };

/// Reads a policy.
pub(super) fn policy(rules: RuleSet, source: &str, name: &str) -> Result<Policy, PolicyErrors> {
    settings::read(source, name, &FORM, |reader| {
        let mut policy = Policy::plain(rules, "", source);
        reader.policy(&mut policy);
        policy
    })
}

impl<'s> Reader<'s> {
    fn policy(&mut self, policy: &mut Policy) {
        let root = Pointer::root();
        let top = self.fields(&root, Some(self.value()), "a policy", &tables::TOP);
        let metadata = self.nested(&top, "metadata", &tables::METADATA);
        // Other values are already reported.
        let readable = top.get("metadata").value.is_none_or(|value| value.is_null() || value.is_object());
        if let Some(name) = readable.then(|| self.required(&metadata, "name", "`metadata.name`")).flatten() {
            name.clone_into(&mut policy.name);
        }
        let spec = self.nested(&top, "spec", &tables::SPEC);
        let rules = policy.rules.clone();
        let settings = self.rules(&rules, &spec.get("rules"));
        policy.overrides = self
            .list(&spec.get("overrides"), "`overrides`", true)
            .map(|item| self.an_override(&rules, &item))
            .collect();
        policy.exemptions = self
            .list(&spec.get("exemptions"), "`exemptions`", true)
            .filter_map(|item| self.exemption(&rules, &item))
            .collect();
        let opt_outs = OptOut::ALL.map(|opt_out| (opt_out.as_str(), opt_out));
        policy.opt_out = self.choice(&spec.get("optOut"), "`optOut`", &opt_outs).unwrap_or_default();
        policy.report_fills = self.flag(&spec, "reportFills");
        let assumptions = self.nested(&spec, "assumptions", &tables::ASSUMPTIONS);
        self.assumptions(&assumptions, &mut policy.assumptions);
        let controllers = spec.get("trustedControllers");
        if controllers.value.is_some_and(|value| !value.is_null()) {
            let names = self.list(&controllers, "`trustedControllers`", true);
            policy.trusted_controllers =
                names.filter_map(|name| self.text(&name, "a user name")).map(str::to_owned).collect();
        }
        policy.settle(settings);
    }

    fn assumptions(&mut self, fields: &Fields<'s>, of: &mut ProgramDefaults) {
        let times = [
            ("runtime", &mut of.runtime),
            ("startup", &mut of.startup),
            ("peerTimeout", &mut of.peer_timeout),
            ("grace", &mut of.grace),
        ];
        for (key, time) in times {
            *time = self.duration(&fields.get(key), key).unwrap_or(*time);
        }
        let or_none =
            [("checkpointEvery", &mut of.checkpoint), ("waitForPodsReady", &mut of.wait_for_pods_ready)];
        for (key, of) in or_none {
            let field = fields.get(key);
            if field.value.and_then(Value::as_str) == Some("none") {
                *of = None;
            } else if let Some(time) = self.duration(&field, key) {
                *of = Some(time);
            }
        }
    }

    fn duration(&mut self, field: &Field<'s>, key: &str) -> Option<Time> {
        let text = self.text(field, &format!("`{key}`"))?;
        match text.parse::<Duration>() {
            Ok(Duration(time)) => Some(time),
            Err(error) => {
                self.wrong(&field.at, format!("`{key}`: {error}"), None);
                None
            }
        }
    }

    /// Reads settings by rule.
    fn rules(&mut self, rules: &RuleSet, field: &Field<'s>) -> BTreeMap<String, RuleSettings> {
        let mut settings = BTreeMap::new();
        for (id, value) in self.mapping(&field.at, field.value, "`rules`").into_iter().flatten() {
            let at = field.at.key(id);
            if let Some(rule) = self.rule(rules, id, &at, Part::Key) {
                settings.insert(id.to_owned(), self.settings(rule, &Field { at, value: Some(value) }));
            }
        }
        settings
    }

    /// Looks a rule up.
    fn rule<'r>(&mut self, rules: &'r RuleSet, id: &str, at: &Pointer, part: Part) -> Option<&'r Rule> {
        if let Some(rule) = rules.find(id) {
            return Some(rule);
        }
        if checks::find(id).is_some() {
            self.error(at, part, format!("`{id}` is a check of the input, which a policy cannot set"), None);
        } else {
            let help = hint(id, rules.iter().map(|rule| &*rule.id));
            self.error(at, part, format!("there is no rule `{}`", shown(id)), Some(help));
        }
        None
    }

    fn settings(&mut self, rule: &Rule, field: &Field<'s>) -> RuleSettings {
        let name = format!("`{}`", rule.id);
        if let Some(Value::String(text)) = field.value {
            let help = format!("write `{{action: {}}}`", shown(text));
            self.wrong(&field.at, format!("{name} is a mapping, not a string"), Some(help));
            return RuleSettings::default();
        }
        let fields = self.fields(&field.at, field.value, &name, &tables::RULE);
        let actions: Vec<(&str, Action)> =
            Action::allowed(rule.can_fill()).map(|action| (action.as_str(), action)).collect();
        let action = fields.get("action");
        let action =
            if action.value.and_then(Value::as_str) == Some(Action::Fill.as_str()) && !rule.can_fill() {
                let help = format!("expected {}", one_of(actions.iter().map(|(word, _)| *word)));
                self.wrong(&action.at, format!("{name} cannot fill in a value"), Some(help));
                None
            } else {
                self.choice(&action, "`action`", &actions)
            };
        let place = fields.get("params");
        let mut params = BTreeMap::new();
        for (key, value) in self.mapping(&place.at, place.value, "`params`").into_iter().flatten() {
            let at = place.at.key(key);
            let Some(param) = rule.param(key) else {
                let help = match rule.params {
                    [] => "it has no parameters".to_owned(),
                    known => hint(key, known.iter().map(|param| param.name)),
                };
                self.error(&at, Part::Key, format!("{name} has no parameter `{}`", shown(key)), Some(help));
                continue;
            };
            if self.param(param, &Field { at, value: Some(value) }) {
                params.insert(key.to_owned(), value.clone());
            }
        }
        RuleSettings { action, params }
    }

    /// Checks a parameter's value; tells whether it is valid.
    fn param(&mut self, param: &Param, field: &Field<'s>) -> bool {
        let before = self.error_count();
        let name = format!("`{}`", param.name);
        let Some(value) = field.value else { return false };
        match &param.default {
            ParamDefault::Bool(_) => {
                self.boolean(field, &name);
            }
            ParamDefault::Int { least, .. } => match value.as_i64() {
                Some(number) if number < *least => {
                    self.wrong(&field.at, format!("{name} is {number}, below the minimum of {least}"), None);
                }
                Some(_) => {}
                None => {
                    let seconds = value
                        .as_str()
                        .and_then(|text| text.parse::<jiff::SignedDuration>().ok())
                        .map(|duration| duration.as_secs());
                    let help = seconds.map(|seconds| format!("write it in seconds: `{seconds}`"));
                    let found = if value.as_number().is_some() {
                        "a number that is not whole, or too large"
                    } else {
                        what(value)
                    };
                    self.wrong(&field.at, format!("{name} is a whole number, not {found}"), help);
                }
            },
            ParamDefault::Strings(_) => {
                if value.is_null() {
                    self.wrong(&field.at, format!("{name} is a list, not nothing"), None);
                }
                for item in self.list(field, &name, true) {
                    self.text(&item, &format!("an item of {name}"));
                }
            }
            ParamDefault::Word(words) => {
                let choices: Vec<(&str, ())> = words.iter().map(|word| (*word, ())).collect();
                self.choice(field, &name, &choices);
            }
            ParamDefault::Map(_) => {
                if value.is_null() {
                    self.wrong(&field.at, format!("{name} is a mapping, not nothing"), None);
                }
                for (key, value) in self.mapping(&field.at, field.value, &name).into_iter().flatten() {
                    // An accelerator with an unknown taint.
                    if value.as_str() == Some("") {
                        continue;
                    }
                    self.text(
                        &Field { at: field.at.key(key), value: Some(value) },
                        &format!("`{}` of {name}", shown(key)),
                    );
                }
            }
        }
        self.error_count() == before
    }

    fn an_override(&mut self, all: &RuleSet, item: &Field<'s>) -> Override {
        let fields = self.fields(&item.at, item.value, "an override", &tables::OVERRIDE);
        let matcher = self.matcher(&fields, "an override");
        let rules = fields.get("rules");
        if rules.value.is_none_or(Value::is_null) {
            self.error(&fields.at, Part::Key, "an override without `rules` changes nothing", None);
        }
        Override { matcher, rules: self.rules(all, &rules) }
    }

    fn exemption(&mut self, all: &RuleSet, item: &Field<'s>) -> Option<Exemption> {
        let fields = self.fields(&item.at, item.value, "an exemption", &tables::EXEMPTION);
        let matcher = self.matcher(&fields, "an exemption");
        let mut rules = Vec::new();
        for id in self.list(&fields.get("rules"), "`rules` of an exemption", false) {
            if let Some(text) = self.text(&id, "a rule's id")
                && let Some(rule) = self.rule(all, text, &id.at, Part::Value)
            {
                rules.push(rule.id.to_string());
            }
        }
        let reason = self.required(&fields, "reason", "`reason`");
        let until = fields.get("until");
        let date = self.text(&until, "`until`");
        let until = date.and_then(|text| {
            let date = (text.len() == 10).then(|| Date::strptime("%Y-%m-%d", text).ok()).flatten();
            if date.is_none() {
                let help = "write the last valid day as year-month-day: `2030-12-31`".to_owned();
                self.wrong(&until.at, format!("`until` is not a date: `{}`", shown(text)), Some(help));
            }
            date
        });
        Some(Exemption { matcher, rules, reason: reason?.to_owned(), until })
    }

    fn matcher(&mut self, outer: &Fields<'s>, whose: &str) -> Matcher {
        let field = outer.get("match");
        if field.value.is_none_or(|value| value.is_null() || value.as_object().is_some_and(Map::is_empty)) {
            let at = if field.value.is_some() { &field.at } else { &outer.at };
            let help = format!("name at least one of {}", one_of(tables::MATCH.keys()));
            self.error(at, Part::Key, format!("{whose} needs a `match` that selects objects"), Some(help));
            return Matcher::default();
        }
        let fields = self.fields(&field.at, field.value, "`match`", &tables::MATCH);
        let mut kinds: Vec<(&str, Kind)> = Kind::all().map(|kind| (kind.title(), kind)).collect();
        kinds.dedup_by_key(|(title, _)| *title);
        let mut labels = BTreeMap::new();
        let place = fields.get("labels");
        for (key, value) in self.mapping(&place.at, place.value, "`labels`").into_iter().flatten() {
            match value {
                // An empty label value is a value.
                Value::String(text) => {
                    labels.insert(key.to_owned(), text.to_string());
                }
                other => {
                    let help = Some("put it in quotes".to_owned());
                    self.wrong(
                        &place.at.key(key),
                        format!("the label `{}` is a string, not {}", shown(key), what(other)),
                        help,
                    );
                }
            }
        }
        Matcher {
            namespaces: self.globs(&fields.get("namespaces"), "`namespaces`"),
            kinds: self
                .list(&fields.get("kinds"), "`kinds`", false)
                .filter_map(|kind| self.choice::<Kind>(&kind, "a kind", &kinds))
                .collect(),
            names: self.globs(&fields.get("names"), "`names`"),
            labels,
            accelerators: self.boolean(&fields.get("accelerators"), "`accelerators`"),
        }
    }
}

#[cfg(test)]
mod tests;
