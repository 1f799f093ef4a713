//! Combines edits of edits into edits of the source.

use std::ops::Range;

use super::{Edit, Splice};

/// A text made of parts of the source and new parts.
#[derive(Clone, Debug)]
pub(super) struct Pieces(Vec<TextPiece>);

#[derive(Clone, Debug)]
enum TextPiece {
    Kept(Range<usize>),
    New(String),
}

impl TextPiece {
    fn len(&self) -> usize {
        match self {
            Self::Kept(range) => range.len(),
            Self::New(text) => text.len(),
        }
    }

    fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Kept(kept) => Self::Kept(kept.start + range.start..kept.start + range.end),
            Self::New(text) => Self::New(text[range].to_owned()),
        }
    }
}

impl Pieces {
    /// Starts with a text of `len` bytes.
    pub(super) fn whole(len: usize) -> Self {
        Self(vec![TextPiece::Kept(0..len)])
    }

    /// Applies splices of the current text, which are sorted and do not overlap.
    pub(super) fn splice(&mut self, splices: Vec<Splice>) {
        let mut out = Vec::with_capacity(self.0.len() + 2 * splices.len());
        let mut old = std::mem::take(&mut self.0).into_iter();
        // The rest of the current piece, and where it starts in the current text.
        let (mut rest, mut at) = (old.next(), 0);
        // Consumes the pieces before a place.
        let mut take = |until: usize, mut out: Option<&mut Vec<TextPiece>>| {
            while at < until
                && let Some(piece) = rest.take()
            {
                let len = piece.len().min(until - at);
                at += len;
                rest = if len < piece.len() { Some(piece.part(len..piece.len())) } else { old.next() };
                if let Some(out) = &mut out {
                    out.push(piece.part(0..len));
                }
            }
        };
        for Splice { span, text, .. } in splices {
            take(span.start, Some(&mut out));
            take(span.end, None);
            out.push(TextPiece::New(text));
        }
        take(usize::MAX, Some(&mut out));
        out.retain(|piece| piece.len() > 0);
        self.0 = out;
    }

    /// Returns what is between the kept parts of the source, which has `len` bytes.
    pub(super) fn edits(&self, len: usize) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut at = 0;
        let mut pending = String::new();
        for piece in &self.0 {
            match piece {
                TextPiece::New(text) => pending.push_str(text),
                TextPiece::Kept(kept) => {
                    if kept.start > at || !pending.is_empty() {
                        edits.push(Edit { span: at..kept.start, text: std::mem::take(&mut pending) });
                    }
                    at = kept.end;
                }
            }
        }
        if at < len || !pending.is_empty() {
            edits.push(Edit { span: at..len, text: pending });
        }
        edits
    }
}
