//! Plots, as SVG that is part of the page.

use plotters::{
    chart::ChartBuilder,
    coord::Shift,
    drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea},
    element::{PathElement, Rectangle, Text},
    prelude::SVGBackend,
    style::{Color, IntoFont, RGBColor, TextStyle},
};

use crate::{
    bench::{
        model::{Case, Variant},
        text::{Scale, digits},
    },
    error::{Error, Result},
};

/// Of a plot, in units of which a phone is 400 wide.
const WIDTH: u32 = 480;
const ROW_HEIGHT: u32 = 30;
const AXIS_HEIGHT: u32 = 40;
/// For the names of the variants.
const LABEL_WIDTH: u32 = 130;
const FONT_SIZE: f64 = 14.0;
/// Room to the right of the longest bar, as a part of it: for its number.
const ROOM: f64 = 1.25;

const BASE: RGBColor = RGBColor(139, 148, 158);
const OTHER: RGBColor = RGBColor(9, 105, 218);
const RANGE: RGBColor = RGBColor(28, 33, 40);
const PUBLISHED: RGBColor = RGBColor(188, 76, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<E> = std::result::Result<(), DrawingAreaErrorKind<E>>;

/// The rates of a case as bars with their lowest and highest round; a mark shows where the bar
/// would end with the ratio that was published.
///
/// # Errors
///
/// It cannot be drawn.
pub fn rates(case: &Case, scale: Scale) -> Result<String> {
    let mut svg = String::new();
    let height = ROW_HEIGHT * case.variants.len() as u32 + AXIS_HEIGHT;
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw_rates(&area, case, scale)
            .map_err(|error| Error::failed(format!("draw {}: {error}", case.title)))?;
    }
    Ok(svg)
}

fn draw_rates(area: &Area<'_>, case: &Case, scale: Scale) -> Drawn<std::io::Error> {
    let bars: Vec<Option<Bar>> =
        case.variants.iter().map(|variant| Bar::of(variant, case, scale)).collect();
    let ends = bars.iter().flatten().map(Bar::end);
    let end = ends.fold(0.0, f64::max).max(f64::MIN_POSITIVE) * ROOM;
    let rows = bars.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(AXIS_HEIGHT)
        .margin_left(LABEL_WIDTH)
        .margin_right(8)
        .build_cartesian_2d(0.0..end, rows..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(plotters::style::TRANSPARENT)
        .x_labels(5)
        .x_label_formatter(&|value| format!("{value}"))
        .x_desc(scale.unit())
        .label_style(("sans-serif", FONT_SIZE))
        .draw()?;
    for (index, (variant, bar)) in case.variants.iter().zip(&bars).enumerate() {
        let row = index as f64;
        let label_at = (4, (ROW_HEIGHT as f64 * (row + 0.5)) as i32 - 7);
        area.draw(&Text::new(variant.title.clone(), label_at, font()))?;
        let Some(bar) = bar else { continue };
        let colour = if index == 0 { BASE } else { OTHER };
        let line =
            |from, to, colour: RGBColor| PathElement::new([from, to], colour.stroke_width(2));
        let middle = row + 0.5;
        chart.draw_series([Rectangle::new(
            [(0.0, row + 0.2), (bar.median, row + 0.8)],
            colour.filled(),
        )])?;
        chart.draw_series([line((bar.min, middle), (bar.max, middle), RANGE)])?;
        if let Some(published) = bar.published {
            let ends = ((published, row + 0.05), (published, row + 0.95));
            chart.draw_series([line(ends.0, ends.1, PUBLISHED)])?;
        }
        let number = Text::new(digits(bar.median), (bar.max + end * 0.01, row + 0.27), font());
        chart.draw_series([number])?;
    }
    area.present()
}

fn font() -> TextStyle<'static> {
    ("sans-serif", FONT_SIZE).into_font().into()
}

/// A variant's rates, in the unit of the plot.
struct Bar {
    median: f64,
    min: f64,
    max: f64,
    published: Option<f64>,
}

impl Bar {
    fn of(variant: &Variant, case: &Case, scale: Scale) -> Option<Self> {
        let rate = &variant.measured.as_ref()?.rate;
        let base = case.variants.first().and_then(|first| first.measured.as_ref());
        let published =
            variant.published.rate.zip(base).map(|(ratio, base)| base.rate.median * ratio);
        Some(Self {
            median: scale.number(rate.median),
            min: scale.number(rate.min),
            max: scale.number(rate.max),
            published: published.map(|rate| scale.number(rate)),
        })
    }

    fn end(&self) -> f64 {
        self.max.max(self.published.unwrap_or_default())
    }
}
