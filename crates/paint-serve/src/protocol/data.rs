//! The values of a tensor inside JSON: numbers or strings, flat or nested, kept as they are needed and no larger.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

/// The values in row-major order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Data {
    pub(super) numbers: Vec<f32>,
    pub(super) texts: Vec<String>,
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut data = Self::default();
        deserializer.deserialize_seq(Into(&mut data))?;
        Ok(data)
    }
}

/// Adds whatever comes to the values.
struct Into<'a>(&'a mut Data);

impl<'de> DeserializeSeed<'de> for Into<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Into<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers or of strings")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.0.numbers.push(value as f32);
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.0.numbers.push(value as f32);
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.0.numbers.push(value as f32);
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.0.texts.push(value.to_owned());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        while values.next_element_seed(Into(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_and_flat_values_are_the_same() {
        let read = |text: &str| serde_json::from_str::<Data>(text);
        assert_eq!(read("[[1, 2.5], [-3, 4]]").unwrap().numbers, [1.0, 2.5, -3.0, 4.0]);
        assert_eq!(read("[1, 2.5, -3, 4]").unwrap(), read("[[1, 2.5], [-3, 4]]").unwrap());
        assert_eq!(read(r#"["a", "b"]"#).unwrap().texts, ["a", "b"]);
        for bad in ["1", "{}", "[{}]", "[null]", "[true]"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&"[".repeat(1000)).is_err());
    }
}
