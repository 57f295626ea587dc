//! What makes two trainings the same: only then may one continue the other.

use paint_nn::backbone::Spec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::images::LabelledImages;
use crate::recipe::Recipe;

/// Everything that decides the weights. On which device it runs and where files lie is not in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The network.
    pub backbone: String,
    /// `[H, W]` it takes.
    pub image_size: [usize; 2],
    /// `C`.
    pub num_classes: usize,
    /// SHA-256 of the weights it began with; none if they were drawn.
    pub weights_sha256: Option<String>,
    /// The dataset's name.
    pub dataset: String,
    /// How many images are trained on.
    pub images: usize,
    /// A hash of them.
    pub images_hash: String,
    /// How a GPU computes.
    pub precision: String,
    /// The seed of every draw.
    pub seed: u64,
    /// All hyper-parameters.
    pub recipe: Recipe,
}

impl Identity {
    /// Of a training of `spec` with `recipe` on `data`.
    pub fn new(spec: &Spec, recipe: &Recipe, data: &LabelledImages, seed: u64) -> Self {
        Self {
            backbone: spec.name.clone(),
            image_size: spec.image_size,
            num_classes: spec.num_classes,
            weights_sha256: None,
            dataset: String::new(),
            images: data.labels.len(),
            images_hash: format!("{:016x}", data.fingerprint),
            precision: "f32".to_owned(),
            seed,
            recipe: recipe.clone(),
        }
    }

    /// The first key in which another training differs: its name, our value, theirs.
    pub(crate) fn difference(&self, theirs: &Value) -> Option<(String, String, String)> {
        difference("", &serde_json::json!(self), theirs)
    }
}

fn difference(key: &str, ours: &Value, theirs: &Value) -> Option<(String, String, String)> {
    let (Value::Object(a), Value::Object(b)) = (ours, theirs) else {
        return (ours != theirs).then(|| (key.to_owned(), ours.to_string(), theirs.to_string()));
    };
    let inner = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let at = |table: &serde_json::Map<String, Value>, name: &str| {
        table.get(name).cloned().unwrap_or(Value::Null)
    };
    names.into_iter().find_map(|name| difference(&inner(name), &at(a, name), &at(b, name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_named_by_its_whole_key() {
        let ours = json!({"seed": 1, "recipe": {"lr": 0.1, "augment": {"pad": 4}}});
        assert_eq!(difference("", &ours, &ours.clone()), None);
        let theirs = json!({"seed": 1, "recipe": {"lr": 0.1, "augment": {"pad": 2}}});
        let found = difference("", &ours, &theirs).unwrap();
        assert_eq!(found, ("recipe.augment.pad".into(), "4".into(), "2".into()));
        let (key, ..) = difference("", &ours, &json!({"seed": 1})).unwrap();
        assert_eq!(key, "recipe");
    }
}
