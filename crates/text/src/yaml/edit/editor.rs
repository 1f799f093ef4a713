//! Turns one operation into splices of the text.

use super::{Splice, Withheld, splice};
use crate::patch::Op;
use crate::pointer::{Pointer, Token};
use crate::yaml::document::Document;
use crate::yaml::locate::{self, FoundNode};
use crate::yaml::print::PrintStyle;
use crate::yaml::tree::{NodeKind, Style, SyntaxTree};

/// The current text and the operation to apply.
pub(super) struct Editor<'e> {
    pub(super) text: &'e str,
    pub(super) document: &'e Document,
    pub(super) tree: &'e SyntaxTree,
    /// The place to name in errors.
    pub(super) pointer: &'e Pointer,
    pub(super) at_line_start: bool,
    pub(super) newline: &'static str,
    /// The operations before it that are applied together with it.
    pub(super) earlier: &'e [Op],
    /// Whether nothing may be written below the last value: see [`super::tail`].
    pub(super) is_open: bool,
}

pub(super) type Splices = Result<Vec<Splice>, Withheld>;

impl<'e> Editor<'e> {
    /// Returns the splices of an operation, and the container that they change.
    pub(super) fn lower(&self, op: &Op) -> Result<(usize, Vec<Splice>), Withheld> {
        let (Some(parent), Some(last)) = (op.pointer().parent(), op.pointer().last()) else {
            return match op {
                Op::Add(_, value) | Op::Replace(_, value) if !self.tree.is_empty() => {
                    Ok((0, self.replace(None, 0, value)?))
                }
                _ => Err(self.layout()),
            };
        };
        let container = self.container(&parent)?;
        Ok((container, self.change(container, last, op)?))
    }

    /// Returns the splice of a key, and its mapping, if two operations rename that key. The entry then keeps
    /// its position and comments.
    pub(super) fn rename(&self, add: &Op, remove: &Op) -> Option<(usize, Vec<Splice>)> {
        let (Op::Add(to, value), Op::Remove(from)) = (add, remove) else { return None };
        let (Some(Token::Key(new)), Some(Token::Key(old))) = (to.last(), from.last()) else { return None };
        let parent = to.parent()?;
        if from.parent()? != parent
            || from.find(&self.document.value)? != value
            || to.find(&self.document.value).is_some()
        {
            return None;
        }
        let mapping =
            self.container(&parent).ok().filter(|at| self.tree.node(*at).kind == NodeKind::Mapping)?;
        let text = self.document.text();
        let named = |key: &usize| !text.is_merge(*key) && text.key(*key).is_ok_and(|(name, _)| name == **old);
        let mut keys = self.tree.entries(mapping).map(|(key, _)| key).filter(named);
        let (key, None) = (keys.next()?, keys.next()) else { return None };
        let node = self.tree.node(key);
        if node.kind != NodeKind::Scalar || node.start != node.content || self.tree.is_shared(key) {
            return None;
        }
        let look = PrintStyle { key_quote: self.quote(key), ..self.look(mapping) };
        Some((
            mapping,
            vec![splice(self.span(key), look.key(new, self.tree.node(mapping).style == Style::Flow))],
        ))
    }

    fn change(&self, container: usize, last: &Token, op: &Op) -> Splices {
        match (self.tree.node(container).kind, op) {
            (NodeKind::Mapping, _) => {
                let key = match last {
                    Token::Key(key) => key.to_string(),
                    Token::Index(index) => index.to_string(),
                };
                let field = locate::field(self.document.text(), container, &key, FoundNode::default());
                match (op, field) {
                    (Op::Remove(_), Some(FoundNode { via: None, .. })) => self.remove_key(container, &key),
                    (Op::Remove(_), _) => Err(self.shared()),
                    (
                        Op::Add(_, value) | Op::Replace(_, value),
                        Some(FoundNode { via: None, key: Some(key), value: at, .. }),
                    ) => self.replace(Some((self.owner(container, at), Some(key))), at, value),
                    (Op::Add(_, value) | Op::Replace(_, value), _) => self.add_key(container, &key, value),
                }
            }
            (NodeKind::Sequence, _) => {
                let items: Vec<usize> = self.tree.children(container).collect();
                let Token::Index(index) = *last else { return Err(self.not_there()) };
                match op {
                    Op::Add(_, value) if index <= items.len() + self.added() => {
                        self.insert(container, &items, index.min(items.len()), value)
                    }
                    Op::Replace(_, value) if index < items.len() => {
                        self.replace(Some((container, None)), items[index], value)
                    }
                    Op::Remove(_) if index < items.len() => self.remove_item(container, &items, index),
                    _ => Err(self.not_there()),
                }
            }
            _ => Err(self.not_there()),
        }
    }

    /// Returns how many items the earlier operations add to the same list.
    fn added(&self) -> usize {
        let list = self.pointer.parent();
        self.earlier.iter().rev().take_while(|op| matches!(op, Op::Add(at, _) if at.parent() == list)).count()
    }

    pub(super) fn not_there(&self) -> Withheld {
        Withheld::NotThere(self.pointer.clone())
    }

    pub(super) fn shared(&self) -> Withheld {
        Withheld::Shared(self.pointer.clone())
    }

    pub(super) fn layout(&self) -> Withheld {
        Withheld::Layout(self.pointer.clone())
    }

    /// Returns the mapping or list that the operation changes.
    pub(super) fn container(&self, pointer: &Pointer) -> Result<usize, Withheld> {
        let found = locate::find(self.document.text(), pointer).ok_or_else(|| self.not_there())?;
        if found.via.is_some()
            || self.tree.node(found.value).kind == NodeKind::Alias
            || self.tree.is_shared(found.value)
        {
            return Err(self.shared());
        }
        if self.tree.node(0).style == Style::Block && !self.at_line_start {
            return Err(self.layout());
        }
        Ok(found.value)
    }

    /// Returns the mapping that has a field: the given one, or one that is merged into it.
    fn owner(&self, mapping: usize, value: usize) -> usize {
        let inside = |at: &usize| {
            self.tree.node(*at).kind == NodeKind::Mapping
                && (*at..self.tree.node(*at).next as usize).contains(&value)
        };
        let mut owner = mapping;
        while let Some(inner) = self.tree.children(owner).find(|child| *child != value && inside(child)) {
            owner = inner;
        }
        owner
    }
}
