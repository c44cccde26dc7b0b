# From Sidekiq: the code of docs/from-other-queues.md. Usage: ruby -I BACKBURNER/lib sidekiq.rb PORT.
# Prints "ok" at the end.

require 'logger'
require 'backburner'

Backburner.configure do |config|
  config.beanstalk_url = "beanstalk://127.0.0.1:#{ARGV[0]}"
  config.tube_namespace = 'shop'
  config.logger = nil
end

module Mailer
  def self.welcome(user) = $welcomed = user
end

# page: begin
class SendWelcome
  include Backburner::Queue
  queue "mails"
  def self.perform(user) = Mailer.welcome(user)
end
Backburner::Worker.enqueue(SendWelcome, [42], delay: 60)
# page: end

tube = Beaneater.new("127.0.0.1:#{ARGV[0]}").tubes['shop.mails']
abort 'not delayed' unless tube.stats.current_jobs_delayed == 1
tube.kick
worker = Backburner::Workers::Simple.new(%w[mails])
worker.prepare
worker.work_one_job
abort "welcomed #{$welcomed}" unless $welcomed == 42
puts 'ok'
