//! Keys that belong to a method, in the dialect of `--set`: `paint.eta=0.4`.

use paint_methods::METHODS;

/// The method whose setting an assignment such as `paint.eta=0.4` changes, if it changes one. A method without settings
/// claims no keys: `source.path` is the section of source images, not a setting of the method `source`.
pub fn method_of(assignment: &str) -> Option<&'static str> {
    let first = assignment.split(['.', '=']).next().unwrap_or_default().trim();
    let row = METHODS.iter().find(|row| row.name == first)?;
    let has_settings = row.resolve(&toml::Table::new()).is_ok_and(|settings| !settings.is_empty());
    has_settings.then_some(row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_belongs_to_the_method_it_begins_with_unless_that_has_no_settings() {
        assert_eq!(method_of("paint.eta=0.4"), Some("paint"));
        assert_eq!(method_of(" eta.lr = 1"), Some("eta"));
        for key in ["source.path=x", "scenario.severity=3", "method.eta=1", "seed=1", ""] {
            assert_eq!(method_of(key), None, "{key}");
        }
    }
}
