//! The values of the template language: those of Python that JSON has, and a few of its own.
//!
//! A value does not change once made, except namespaces, which live in the rendering's own list; so no value can contain itself.
//! Lists and objects know their depth, and none deeper than [`MOST_DEPTH`] can be made: code that walks through a value may
//! recurse.
#![forbid(unsafe_code)]

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::fault::{Budget, Fault, Res, fail};

/// The deepest nesting of lists and objects.
pub(crate) const MOST_DEPTH: u32 = 160;
/// The memory charged for an element of a list or an object.
const ELEMENT: usize = 48;
/// The memory charged for a list or an object besides its elements.
const LIST: usize = 64;
/// The memory charged for a string besides its bytes.
pub(crate) const STRING: usize = 32;
/// How many characters of a name an undefined value keeps.
const SHOWN: usize = 64;
/// Objects with more entries than this have an index.
const FEW: usize = 8;

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// A missing value; the text says what was looked for.
    Undefined(Arc<str>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Arc<str>),
    List(Arc<List>),
    Tuple(Arc<List>),
    Dict(Arc<Dict>),
    /// A lazy sequence of Python's: loops can read it, but it has no length and no indices, and counts as true.
    Lazy(Arc<List>),
    /// The number of a namespace, macro or loop of the rendering.
    Namespace(usize),
    Macro(usize),
    Loop(usize),
    /// A value of `joiner` and `cycler`, by its number.
    Helper(usize),
    /// The value of `self`, and one of the template's blocks.
    Blocks,
    Block(usize),
    /// A function by its name.
    Function(&'static str),
    /// A value and the name of its method.
    Method(Arc<(Value, String)>),
}

/// The elements of a list or tuple, and how deep it is.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) items: Vec<Value>,
    pub(crate) shape: Shape,
    depth: u32,
}

/// The kind of a list or tuple.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    #[default]
    Plain,
    /// A pair of `groupby`, which has names for its parts.
    Group,
    /// The result of `range`: start, stop and step.
    Range(Box<[i128; 3]>),
    /// The result of a method of an object.
    View(View),
}

/// The methods of an object that give a view of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Keys,
    Values,
    Items,
}

/// An object: its entries in the order in which their keys came first.
#[derive(Debug, Default)]
pub(crate) struct Dict {
    entries: Vec<(Value, Value)>,
    /// How many of the entries have strings for keys.
    n_strings: usize,
    /// Their places, once there are many entries.
    index: Option<Box<Index>>,
    depth: u32,
}

type Index = HashMap<Arc<str>, usize, ahash::RandomState>;

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Str(text.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Str(text.into())
    }
}

fn depth_above<'v>(children: impl Iterator<Item = &'v Value>) -> Res<u32> {
    let depth = children.map(Value::depth).max().unwrap_or(0) + 1;
    match depth <= MOST_DEPTH {
        true => Ok(depth),
        false => Err(Fault::limit(format!("a value is more than {MOST_DEPTH} levels deep"))),
    }
}

impl List {
    /// The elements, charged.
    pub(crate) fn new(items: Vec<Value>, budget: &mut Budget) -> Res<Arc<List>> {
        List::shaped(items, Shape::Plain, budget)
    }

    /// As [`List::new`], of some shape.
    pub(crate) fn shaped(mut items: Vec<Value>, shape: Shape, budget: &mut Budget) -> Res<Arc<List>> {
        budget.bytes(items.len().saturating_mul(ELEMENT).saturating_add(LIST))?;
        budget.steps(items.len())?;
        let depth = depth_above(items.iter())?;
        items.shrink_to_fit();
        Ok(Arc::new(List { items, shape, depth }))
    }
}

impl Dict {
    /// The entries, charged; of entries with the same key the last one counts, at the place of the first.
    pub(crate) fn new(entries: Vec<(Value, Value)>, budget: &mut Budget) -> Res<Arc<Dict>> {
        budget.bytes(entries.len().saturating_mul(4 * ELEMENT).saturating_add(LIST))?;
        let depth = depth_above(entries.iter().map(|(_, v)| v))?;
        let mut dict = Dict { entries: Vec::with_capacity(entries.len()), depth, ..Dict::default() };
        for (key, value) in entries {
            match dict.position(&key, budget)? {
                Some(at) => dict.entries[at].1 = value,
                None => dict.push(key, value)?,
            }
        }
        dict.entries.shrink_to_fit();
        Ok(Arc::new(dict))
    }

    fn push(&mut self, key: Value, value: Value) -> Res<()> {
        match &key {
            Value::Str(text) => {
                self.n_strings += 1;
                if let Some(index) = &mut self.index {
                    index.insert(Arc::clone(text), self.entries.len());
                }
            }
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
            Value::Tuple(_) => return fail("a tuple cannot be the key of an object here"),
            other => return fail(format!("{} cannot be the key of an object", other.type_name())),
        }
        self.entries.push((key, value));
        if self.entries.len() > FEW && self.index.is_none() {
            let entries = self.entries.iter().enumerate();
            let strings = entries.filter_map(|(i, (key, _))| match key {
                Value::Str(text) => Some((Arc::clone(text), i)),
                _ => None,
            });
            self.index = Some(Box::new(strings.collect()));
        }
        Ok(())
    }

    fn position(&self, key: &Value, budget: &mut Budget) -> Res<Option<usize>> {
        budget.steps(1)?;
        if let Value::Str(text) = key {
            return self.position_of(text, budget);
        }
        if self.n_strings == self.entries.len() {
            return Ok(None);
        }
        budget.steps(self.entries.len())?;
        let same = |other: &Value| match (key.number(), other.number()) {
            (Some(a), Some(b)) => a == b,
            _ => matches!((key, other), (Value::None, Value::None)),
        };
        Ok(self.entries.iter().position(|(k, _)| same(k)))
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &Value, budget: &mut Budget) -> Res<Option<&Value>> {
        Ok(self.position(key, budget)?.map(|at| &self.entries[at].1))
    }

    fn position_of(&self, key: &str, budget: &mut Budget) -> Res<Option<usize>> {
        let n = if self.index.is_some() { 1 } else { self.entries.len() };
        budget.steps(key.len().saturating_mul(n) / 64)?;
        Ok(match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(k, _)| k.str() == Some(key)),
        })
    }

    /// The value of a key that is a string.
    pub(crate) fn get_str(&self, key: &str, budget: &mut Budget) -> Res<Option<&Value>> {
        Ok(self.position_of(key, budget)?.map(|at| &self.entries[at].1))
    }

    pub(crate) fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }
}

/// A number as Python compares it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub(crate) fn float(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        match (*self, *other) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
            (Number::Int(a), Number::Float(b)) => against_float(a, b),
            (Number::Float(a), Number::Int(b)) => against_float(b, a).map(Ordering::reverse),
        }
    }
}

/// The order of an integer and a float by their exact values.
fn against_float(n: i128, x: f64) -> Option<Ordering> {
    match whole(x) {
        Some(whole) => Some(n.cmp(&whole).then(0.0.partial_cmp(&(x - x.trunc()))?)),
        None => 0.0.partial_cmp(&x),
    }
}

/// A float without its fraction; `None` when no integer here is as large.
pub(crate) fn whole(x: f64) -> Option<i128> {
    // Both bounds are powers of two, and so floats.
    (i128::MIN as f64 <= x && x < -(i128::MIN as f64)).then_some(x as i128)
}

impl Value {
    /// The undefined value for something missing, charged; a long name is cut.
    pub(crate) fn undefined(what: &str, budget: &mut Budget) -> Res<Value> {
        budget.bytes(what.len() + STRING)?;
        Ok(Value::Undefined(what.into()))
    }

    /// The undefined value for something called `name` that `of` does not have, charged.
    pub(crate) fn missing(name: &str, of: &str, budget: &mut Budget) -> Res<Value> {
        let shown = name.char_indices().nth(SHOWN).map_or(name, |(end, _)| &name[..end]);
        let more = if shown.len() < name.len() { "…" } else { "" };
        Value::undefined(&format!("\"{shown}{more}\"{of}"), budget)
    }

    fn depth(&self) -> u32 {
        match self {
            Value::List(list) | Value::Tuple(list) | Value::Lazy(list) => list.depth,
            Value::Dict(dict) => dict.depth,
            Value::Method(method) => method.0.depth(),
            _ => 0,
        }
    }

    /// The name of the type, as Python has it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Undefined(_) => "an undefined value",
            Value::None => "None",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Str(_) => "a string",
            Value::List(list) => match list.shape {
                Shape::Range(_) => "a range",
                Shape::View(_) => "a view of an object",
                Shape::Plain | Shape::Group => "a list",
            },
            Value::Tuple(_) => "a tuple",
            Value::Dict(_) => "an object",
            Value::Lazy(_) => "a generator",
            Value::Namespace(_) => "a namespace",
            Value::Macro(_) => "a macro",
            Value::Loop(_) => "a loop",
            Value::Helper(_) => "a joiner or cycler",
            Value::Blocks => "the template itself",
            Value::Block(_) => "a block",
            Value::Function(_) => "a function",
            Value::Method(_) => "a method",
        }
    }

    /// Booleans are the numbers 0 and 1.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Value::Bool(b) => Some(Number::Int(i128::from(*b))),
            Value::Int(n) => Some(Number::Int(*n)),
            Value::Float(x) => Some(Number::Float(*x)),
            _ => None,
        }
    }

    /// An integer or boolean.
    pub(crate) fn integer(&self) -> Option<i128> {
        match self {
            Value::Bool(b) => Some(i128::from(*b)),
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    pub(crate) fn str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined(_))
    }

    /// The truth value, for `if`.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Value::Undefined(_) | Value::None => false,
            Value::Bool(b) => *b,
            Value::Int(n) => *n != 0,
            Value::Float(x) => *x != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::List(list) | Value::Tuple(list) => !list.items.is_empty(),
            Value::Dict(dict) => !dict.entries.is_empty(),
            _ => true,
        }
    }

    /// The error for the use of an undefined value.
    pub(crate) fn undefined_error(&self) -> Fault {
        match self {
            Value::Undefined(what) => Fault::failed(format!("{what} is undefined")),
            other => Fault::failed(format!("{} cannot be used here", other.type_name())),
        }
    }

    /// Whether it is a list in brackets, or no list.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self, Value::List(list) if list.shape != Shape::Plain)
    }

    /// Whether it is a result of an object's `keys`, `values` or `items`, which has no indices.
    pub(crate) fn is_view(&self) -> bool {
        matches!(self, Value::List(list) if matches!(list.shape, Shape::View(_)))
    }

    /// Whether it has a length.
    pub(crate) fn has_length(&self) -> bool {
        matches!(
            self,
            Value::Undefined(_) | Value::Str(_) | Value::List(_) | Value::Tuple(_) | Value::Dict(_)
        )
    }

    /// How many elements or characters it has.
    pub(crate) fn len(&self, budget: &mut Budget) -> Res<usize> {
        match self {
            Value::Undefined(_) => Ok(0),
            Value::Str(text) => {
                budget.scan(text)?;
                Ok(text.chars().count())
            }
            Value::List(list) | Value::Tuple(list) => Ok(list.items.len()),
            Value::Dict(dict) => Ok(dict.entries.len()),
            other => fail(format!("{} has no length", other.type_name())),
        }
    }

    /// The elements, keys or characters for a loop, charged.
    pub(crate) fn iterate(&self, budget: &mut Budget) -> Res<Vec<Value>> {
        let items: Vec<Value> = match self {
            Value::Undefined(_) => Vec::new(),
            Value::List(list) | Value::Tuple(list) | Value::Lazy(list) => {
                budget.bytes(list.items.len().saturating_mul(ELEMENT))?;
                list.items.clone()
            }
            Value::Dict(dict) => {
                budget.bytes(dict.entries.len().saturating_mul(ELEMENT))?;
                dict.entries.iter().map(|(key, _)| key.clone()).collect()
            }
            Value::Str(text) => {
                budget.bytes(text.len().saturating_mul(ELEMENT + STRING))?;
                text.chars().map(|c| Value::from(c.encode_utf8(&mut [0; 4]) as &str)).collect()
            }
            other => return fail(format!("{} cannot be looped over", other.type_name())),
        };
        budget.steps(items.len())?;
        Ok(items)
    }

    /// Whether two values are equal, as Python has it.
    pub(crate) fn equals(&self, other: &Value, budget: &mut Budget) -> Res<bool> {
        budget.steps(1)?;
        if let (Some(a), Some(b)) = (self.number(), other.number()) {
            return Ok(a == b);
        }
        match (self, other) {
            (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => Ok(true),
            (Value::Str(a), Value::Str(b)) => {
                budget.steps(a.len().min(b.len()) / 64)?;
                Ok(a == b)
            }
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
                let lists = matches!(self, Value::List(_));
                if lists && std::mem::discriminant(&a.shape) != std::mem::discriminant(&b.shape) {
                    return Ok(false);
                }
                if a.items.len() != b.items.len() {
                    return Ok(false);
                }
                for (a, b) in a.items.iter().zip(&b.items) {
                    if !a.equals(b, budget)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Dict(a), Value::Dict(b)) => {
                if a.entries.len() != b.entries.len() {
                    return Ok(false);
                }
                for (key, value) in &a.entries {
                    let Some(other) = b.get(key, budget)? else { return Ok(false) };
                    if !value.equals(other, budget)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Namespace(a), Value::Namespace(b))
            | (Value::Macro(a), Value::Macro(b))
            | (Value::Loop(a), Value::Loop(b))
            | (Value::Helper(a), Value::Helper(b))
            | (Value::Block(a), Value::Block(b)) => Ok(a == b),
            (Value::Blocks, Value::Blocks) => Ok(true),
            (Value::Function(a), Value::Function(b)) => Ok(a == b),
            _ => Ok(false),
        }
    }

    /// The order of two values that have one.
    pub(crate) fn order(&self, other: &Value, budget: &mut Budget) -> Res<Option<Ordering>> {
        budget.steps(1)?;
        if let (Some(a), Some(b)) = (self.number(), other.number()) {
            return Ok(a.partial_cmp(&b));
        }
        match (self, other) {
            (Value::Str(a), Value::Str(b)) => {
                budget.steps(a.len().min(b.len()) / 64)?;
                Ok(Some(a.cmp(b)))
            }
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b))
                if self.is_plain() && other.is_plain() =>
            {
                for (a, b) in a.items.iter().zip(&b.items) {
                    if !a.equals(b, budget)? {
                        return a.order(b, budget);
                    }
                }
                Ok(Some(a.items.len().cmp(&b.items.len())))
            }
            (Value::Undefined(_), _) => Err(self.undefined_error()),
            (_, Value::Undefined(_)) => Err(other.undefined_error()),
            _ => fail(format!("{} and {} cannot be ordered", self.type_name(), other.type_name())),
        }
    }
}
