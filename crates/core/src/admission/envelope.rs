//! The JSON of a review, parsed only as far as needed.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::review::{Head, Version};
use super::skim::SkimKeep;
use crate::kinds::Kind;
use crate::text::value::{Value, ValueReader};

/// The longest `uid` that is echoed, in bytes. The API server's are 36 long.
pub(super) const LONGEST_UID: usize = 256;

/// A review, parsed only as far as needed.
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    pub(super) head: Head<'a>,
    pub(super) is_review: bool,
    pub(super) has_request: bool,
    pub(super) object: Option<&'a RawValue>,
    pub(super) old: Option<&'a RawValue>,
    /// What to keep of a created object, if it is skimmed while the body is read.
    skims: Option<SkimKeep>,
    pub(super) skimmed: Option<(Kind, Value)>,
}

impl<'a> Envelope<'a> {
    /// Reads as far as possible; the part before an error is kept.
    pub(super) fn read(body: &'a [u8]) -> (Self, Option<serde_json::Error>) {
        let mut envelope = Self::default();
        let mut json = serde_json::Deserializer::from_slice(body);
        let read = EnvelopeReader { envelope: &mut envelope, level: EnvelopeLevel::Review }
            .deserialize(&mut json)
            .and_then(|()| json.end());
        (envelope, read.err())
    }

    /// Reads a whole body, and skims a created object in the same pass.
    pub(super) fn skim(body: &'a [u8], keep: SkimKeep) -> Option<Self> {
        let mut envelope = Self { skims: Some(keep), ..Self::default() };
        let mut json = serde_json::Deserializer::from_str(str::from_utf8(body).ok()?);
        let reader = EnvelopeReader { envelope: &mut envelope, level: EnvelopeLevel::Review };
        reader.deserialize(&mut json).and_then(|()| json.end()).ok()?;
        Some(envelope)
    }

    /// Takes one field of the review itself.
    fn review_field(&mut self, key: &str, value: &'a RawValue) {
        match key {
            "kind" => self.is_review = text(value) == "AdmissionReview",
            "apiVersion" => {
                self.head.version =
                    if text(value) == Version::V1Beta1.as_str() { Version::V1Beta1 } else { Version::V1 }
            }
            _ => {}
        }
    }

    /// Takes one field of `request`.
    fn request_field(&mut self, key: &str, value: &'a RawValue) {
        let head = &mut self.head;
        match key {
            "uid" => head.uid = Some(text(value)).filter(|uid| uid.len() <= LONGEST_UID).unwrap_or_default(),
            "operation" => head.operation = text(value),
            "namespace" => head.namespace = text(value),
            "name" => head.name = text(value),
            "subResource" => head.subresource = text(value),
            "dryRun" => head.dry_run = value.get() == "true",
            "kind" => {
                let mut fields = fields(value);
                head.group = fields.remove("group").map(text).unwrap_or_default();
                head.kind = fields.remove("kind").map(text).unwrap_or_default();
            }
            "userInfo" => head.user = fields(value).remove("username").map(text).unwrap_or_default(),
            "object" => self.object = Some(value).filter(|value| value.get() != "null"),
            "oldObject" => self.old = Some(value).filter(|value| value.get() != "null"),
            _ => {}
        }
    }
}

/// Returns the text of a string.
fn text(value: &RawValue) -> Cow<'_, str> {
    serde_json::from_str::<EnvelopeText<'_>>(value.get()).map(|text| text.0).unwrap_or_default()
}

/// Returns a mapping's fields, and none for any other value. Of equal keys the last one counts.
fn fields(value: &RawValue) -> BTreeMap<EnvelopeText<'_>, &RawValue> {
    serde_json::from_str(value.get()).unwrap_or_default()
}

/// A string that is borrowed where it has no escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct EnvelopeText<'a>(#[serde(borrow)] Cow<'a, str>);

impl Borrow<str> for EnvelopeText<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The position of an [`EnvelopeReader`] in a review.
#[derive(Clone, Copy, Debug)]
enum EnvelopeLevel {
    /// At its top.
    Review,
    /// In `request`.
    Request,
}

/// Reads one mapping of a review into an envelope, and skips a value of any other type.
#[derive(Debug)]
struct EnvelopeReader<'e, 'a> {
    envelope: &'e mut Envelope<'a>,
    level: EnvelopeLevel,
}

impl<'a> DeserializeSeed<'a> for EnvelopeReader<'_, 'a> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for EnvelopeReader<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        self.envelope.has_request |= matches!(self.level, EnvelopeLevel::Request);
        while let Some(EnvelopeText(key)) = map.next_key()? {
            match (self.level, &*key) {
                (EnvelopeLevel::Review, "request") => map.next_value_seed(EnvelopeReader {
                    envelope: &mut *self.envelope,
                    level: EnvelopeLevel::Request,
                })?,
                (EnvelopeLevel::Review, key) => self.envelope.review_field(key, map.next_value()?),
                (EnvelopeLevel::Request, "object")
                    if let Some((keep, kind)) = self.envelope.skims.zip(self.envelope.head.creates()) =>
                {
                    self.envelope.skimmed =
                        Some((kind, map.next_value_seed(ValueReader(keep.of_kind(kind)))?));
                }
                (EnvelopeLevel::Request, key) => self.envelope.request_field(key, map.next_value()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// Returns a body with a question mark for each byte that is not UTF-8: no field has one in its name, and the
/// length stays the same.
pub(super) fn legible(body: &[u8]) -> Cow<'_, [u8]> {
    if str::from_utf8(body).is_ok() {
        return Cow::Borrowed(body);
    }
    let mut text = Vec::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.extend_from_slice(chunk.valid().as_bytes());
        text.resize(text.len() + chunk.invalid().len(), b'?');
    }
    Cow::Owned(text)
}

/// Tells whether two objects have the same spec, at any depth, readable or not.
///
/// Compares bytes: the API server writes both with the same encoder, which orders fields.
pub(super) fn have_same_spec(object: &RawValue, old: &RawValue) -> bool {
    SpecReader::of(object).zip(SpecReader::of(old)).is_some_and(|(new, old)| new == old)
}

/// Finds the text of the `spec` in an object. Of equal keys the last one counts.
struct SpecReader;

impl SpecReader {
    /// Returns the text, which may be missing; nothing if a key cannot be read, since it may be another `spec`.
    fn of(object: &RawValue) -> Option<Option<&str>> {
        let mut json = serde_json::Deserializer::from_str(object.get());
        json.deserialize_map(Self).ok()
    }
}

impl<'a> Visitor<'a> for SpecReader {
    type Value = Option<&'a str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut spec = None;
        while let Some(EnvelopeText(key)) = map.next_key()? {
            if key == "spec" {
                spec = Some(map.next_value::<&RawValue>()?.get());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(spec)
    }
}
