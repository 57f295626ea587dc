//! Activation maps on a page.

use std::fmt::Write as _;

use paint_data::{Image, Sample, SampleRef};
use paint_run::escape::html as escape;
use paint_run::{Experiment, Result};

use super::embed::img;
use super::page::Page;
use crate::cam::ActivationMap;

/// One image, and where each method looked.
#[derive(Debug, Clone)]
pub struct CamShot {
    /// The domain it comes from.
    pub domain: String,
    /// As the models saw it.
    pub image: Image,
    /// Its class, where known.
    pub truth: Option<String>,
    /// By method.
    pub maps: Vec<CamMap>,
}

impl CamShot {
    /// An image of an experiment, without maps yet.
    pub fn new(experiment: &Experiment, at: SampleRef, sample: Sample) -> Self {
        let info = experiment.dataset.info();
        Self {
            domain: experiment.dataset.domains()[at.domain].name.clone(),
            image: sample.image,
            truth: sample.label.map(|label| info.class_name(label)),
            maps: Vec::new(),
        }
    }
}

/// Where one method looked.
#[derive(Debug, Clone)]
pub struct CamMap {
    /// The method.
    pub label: String,
    /// The map.
    pub map: ActivationMap,
    /// The class it predicted.
    pub said: String,
}

/// A page of maps.
pub fn cam_page(what: &str, shots: &[CamShot]) -> Result<String> {
    let mut page = Page::new("Activation maps", what);
    page.add(&cam_table(shots)?);
    Ok(page.finish())
}

/// A row for each image: the image, then the map of each method.
pub(super) fn cam_table(shots: &[CamShot]) -> Result<String> {
    let mut html = String::from("<div class=\"wide\"><table class=\"cams\"><tr><th>image</th>");
    for map in shots.first().iter().flat_map(|shot| &shot.maps) {
        let _ = write!(html, "<th>{}</th>", escape(&map.label));
    }
    html.push_str("</tr>");
    for shot in shots {
        let truth = escape(shot.truth.as_deref().unwrap_or(""));
        let (image, domain) = (img(&shot.image, "image"), escape(&shot.domain));
        let _ = write!(html, "<tr><td>{image}<br>{domain}<br><b>{truth}</b></td>");
        for map in &shot.maps {
            let right = shot.truth.as_ref().is_none_or(|truth| *truth == map.said);
            let class = if right { "" } else { " class=\"bad\"" };
            let over = img(&map.map.over(&shot.image)?, &map.label);
            let _ = write!(html, "<td>{over}<br><span{class}>{}</span></td>", escape(&map.said));
        }
        html.push_str("</tr>");
    }
    Ok(html + "</table></div>")
}
