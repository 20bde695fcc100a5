// The views. A view is a list of paths to ask and a function from their answers to elements.

import { broker, brokerList } from "./brokers.js";
import { churn } from "./churn.js";
import { impact, resilience } from "./foresight.js";
import { overview } from "./overview.js";
import { topic, topicList } from "./topics.js";

export const TABS = [
  ["overview", "Overview"],
  ["brokers", "Brokers"],
  ["topics", "Topics"],
  ["churn", "Churn"],
  ["resilience", "Resilience"],
  ["compare", "Compare"],
];

export const views = {
  overview: {
    title: () => "Overview",
    ask: () => ["v1/overview"],
    show: ([found], moment, { redraw }) => overview(found, moment, redraw),
  },
  brokers: brokerList,
  broker,
  topics: topicList,
  topic,
  churn,
  impact,
  resilience,
};
