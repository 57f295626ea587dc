//! Activation maps on a page.

use std::fmt::Write as _;

use paint_data::{Image, SampleRef};
use paint_run::escape::html as escape;
use paint_run::{Experiment, Result};

use super::embed::img;
use super::page::Page;
use crate::cam::Maps;

/// One image, and where each method looked.
#[derive(Debug, Clone)]
pub struct CamShot {
    /// The domain it comes from.
    pub domain: String,
    /// As the models saw it.
    pub image: Image,
    /// The clean image that it was made from, where that is known.
    pub clean: Option<Image>,
    /// Its class, where known.
    pub truth: Option<String>,
    /// By method.
    pub maps: Vec<CamMap>,
}

/// Where one method looked.
#[derive(Debug, Clone)]
pub struct CamMap {
    /// The method.
    pub label: String,
    /// The maps.
    pub maps: Maps,
    /// The class it predicted.
    pub said: String,
    /// The class it predicted for the clean image.
    pub said_of_clean: Option<String>,
}

impl CamShot {
    /// An image of an experiment, without maps yet.
    pub fn new(experiment: &Experiment, at: SampleRef) -> Result<Self> {
        let data = &experiment.dataset;
        let sample = data.sample(at.domain, at.index)?;
        Ok(Self {
            domain: data.domains()[at.domain].name.clone(),
            image: sample.image,
            clean: experiment.clean_image(at)?.map(|clean| clean.sample.image),
            truth: sample.label.map(|label| data.info().class_name(label)),
            maps: Vec::new(),
        })
    }

    /// Adds where a method looked.
    pub fn add(&mut self, experiment: &Experiment, label: &str, maps: Maps) {
        let name = |class| experiment.dataset.info().class_name(class);
        let said_of_clean = maps.clean.as_ref().map(|map| name(map.predicted));
        let said = name(maps.map.predicted);
        self.maps.push(CamMap { label: label.to_owned(), maps, said, said_of_clean });
    }

    /// The image, then the map of each method, each followed by that of the clean image where there is one.
    pub fn panels(&self) -> Result<Vec<Image>> {
        let cells = self.cells()?.into_iter().flatten().flatten();
        Ok(cells.map(|cell| cell.image).collect())
    }

    /// The same as cells of a table, in pairs: as it came, and clean.
    fn cells(&self) -> Result<Vec<[Option<Cell>; 2]>> {
        let truth = escape(self.truth.as_deref().unwrap_or_default());
        let plain = |image: &Image, domain: &str| Cell {
            image: image.clone(),
            text: format!("{}<br><b>{truth}</b>", escape(domain)),
        };
        let clean = self.clean.as_ref().map(|image| plain(image, "clean"));
        let mut cells = vec![[Some(plain(&self.image, &self.domain)), clean]];
        let said = |image: Image, class: &str| {
            let right = self.truth.as_ref().is_none_or(|truth| truth == class);
            let look = if right { "" } else { " class=\"bad\"" };
            Cell { image, text: format!("<span{look}>{}</span>", escape(class)) }
        };
        for CamMap { maps, said: class, said_of_clean, .. } in &self.maps {
            let clean = match (&self.clean, &maps.clean, said_of_clean) {
                (Some(image), Some(map), Some(class)) => Some(said(map.over(image)?, class)),
                _ => None,
            };
            cells.push([Some(said(maps.map.over(&self.image)?, class)), clean]);
        }
        Ok(cells)
    }
}

/// An image with what stands below it, as HTML.
struct Cell {
    image: Image,
    text: String,
}

/// A page of maps.
pub fn cam_page(what: &str, shots: &[CamShot]) -> Result<String> {
    let mut page = Page::new("Activation maps", what);
    page.add(&cam_table(shots)?);
    Ok(page.finish())
}

/// A row for each image: the image, then the map of each method, with columns for clean images if any is known.
pub(super) fn cam_table(shots: &[CamShot]) -> Result<String> {
    let columns = if shots.iter().any(|shot| shot.clean.is_some()) { 2 } else { 1 };
    let mut html = String::from("<div class=\"wide\"><table class=\"cams\"><tr>");
    let labels = shots.first().into_iter().flat_map(|shot| &shot.maps);
    for label in ["image"].into_iter().chain(labels.map(|map| map.label.as_str())) {
        let heads = [label.to_owned(), format!("{label}, clean")];
        for head in &heads[..columns] {
            let _ = write!(html, "<th>{}</th>", escape(head));
        }
    }
    html.push_str("</tr>");
    for shot in shots {
        html.push_str("<tr>");
        let labels = shot.maps.iter().map(|map| map.label.as_str());
        for (pair, label) in shot.cells()?.iter().zip(["image"].into_iter().chain(labels)) {
            for cell in &pair[..columns] {
                let content =
                    cell.as_ref().map(|cell| img(&cell.image, label) + "<br>" + &cell.text);
                let _ = write!(html, "<td>{}</td>", content.unwrap_or_default());
            }
        }
        html.push_str("</tr>");
    }
    Ok(html + "</table></div>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cam::ActivationMap;

    fn shot(clean: Option<usize>) -> CamShot {
        let image = Image::new(4, 2, vec![90; 24]).unwrap();
        let map = |predicted| ActivationMap {
            size: [1, 2],
            heat: vec![0.0, 1.0],
            class: predicted,
            predicted,
        };
        CamShot {
            domain: "fog".into(),
            image: image.clone(),
            clean: clean.map(|_| image),
            truth: Some("cat".into()),
            maps: vec![CamMap {
                label: "source".into(),
                maps: Maps { map: map(1), clean: clean.map(map) },
                said: "dog".into(),
                said_of_clean: clean.map(|_| "cat".into()),
            }],
        }
    }

    #[test]
    fn maps_of_clean_images_stand_beside_the_others_and_only_where_there_are_any() {
        let alone = cam_table(&[shot(None)]).unwrap();
        assert_eq!((alone.matches("<th>").count(), alone.matches("<img").count()), (2, 2));
        let both = cam_table(&[shot(Some(0)), shot(None)]).unwrap();
        let heads = "<th>image</th><th>image, clean</th><th>source</th><th>source, clean</th>";
        assert!(both.contains(heads), "{both}");
        assert_eq!((both.matches("<td").count(), both.matches("<img").count()), (8, 6));
        // Wrong of the corrupted image, right of the clean one.
        assert!(both.contains("<span class=\"bad\">dog</span>"), "{both}");
        assert!(both.contains("<span>cat</span>"), "{both}");
        assert_eq!(shot(Some(0)).panels().unwrap().len(), 4);
    }
}
