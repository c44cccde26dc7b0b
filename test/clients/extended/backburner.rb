# runnerbean's commands with backburner and ActiveJob. Usage: ruby -I BACKBURNER/lib backburner.rb PORT.
# Prints "ok" at the end.

require 'logger'
require 'active_job'
require 'backburner'
require 'active_job/queue_adapters/backburner_adapter'

# page: begin
Backburner.configure do |config|
  config.beanstalk_url = "beanstalk://127.0.0.1:#{ARGV[0]}"
  config.tube_namespace = 'shop'
  config.max_job_retries = 1_000 # The tube's max-attempts and backoff decide.
  config.retry_delay = 0
  config.logger = nil
end

# One connection for commands of runnerbean; see beaneater.rb for the check of replies.
class Runnerbean
  def initialize = @queue = Beaneater.new("127.0.0.1:#{ARGV[0]}").connection

  def ask(line, *usual)
    reply = @queue.transmit(line)
    raise "#{reply[:status]} #{reply[:id]} in reply to: #{line.lines.first}" unless usual.include?(reply[:status])

    reply
  end

  # What Backburner.enqueue puts, with options: unique, group, ttl, batch, after, meta.
  def enqueue(options, job_class, *args, tube: job_class.queue)
    body = JSON.generate(class: job_class.name, args: args)
    line = "put-in-tube shop.#{tube} 0 0 120 #{body.bytesize} #{options}"
    ask("#{line}\r\n#{body}", 'INSERTED', 'DUPLICATE')
  end

  # The same for a job of ActiveJob.
  def perform_later(options, job)
    enqueue(options, ActiveJob::QueueAdapters::BackburnerAdapter::JobWrapper, job.serialize, tube: job.queue_name)
  end
end

# Backburner releases a failed job without a reason: give the reason before it does.
module Reasons
  def retry(count, delay)
    reason = URI.encode_www_form_component($!.to_s[0, 300]).gsub('+', '%20')
    connection = task.client.connection
    status = connection.transmit("release #{task.id} 0 #{delay} reason=#{reason}")[:status]
    raise status unless status == 'RELEASED'
  end
end
Backburner::Job.prepend(Reasons)
# page: end

class SendWelcome
  include Backburner::Queue
  queue 'mails'
  def self.perform(user) = raise("SMTP 550: no such user #{user}")
end

class Report < ActiveJob::Base
  queue_as 'reports'
  def perform(month) = $reported = month
end

runnerbean = Runnerbean.new
runnerbean.ask('set-tube shop.mails max-attempts=5 backoff=10 dead-letter=shop.mails-dead', 'SET')
first = runnerbean.enqueue('unique=welcome:42', SendWelcome, 42)
again = runnerbean.enqueue('unique=welcome:42', SendWelcome, 42)
abort again.to_s unless again == { status: 'DUPLICATE', id: first[:id] }
runnerbean.perform_later('meta=tenant:acme', Report.new('2026-11'))

worker = Backburner::Workers::Simple.new(%w[mails reports])
worker.prepare
2.times { worker.work_one_job }
abort 'not reported' unless $reported == '2026-11'
facts = runnerbean.ask("inspect-job #{first[:id]}", 'OK')[:body]
abort facts.to_s unless facts['attempts'] == 1 && facts['failures'][0]['reason'].include?('no such user 42')
puts 'ok'
